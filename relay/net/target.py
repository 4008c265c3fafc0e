"""Reaching a target behind the agent: a bounded, non-blocking connect, names resolved beside the loop."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable
from errno import EINPROGRESS

from relay.net.engine import Engine
from relay.net.pump import prepare
from relay.net.tasks import Tasks
from relay.protocol.problem import Problem

Done = Callable[["socket.socket | Problem"], None]
Place = tuple[int, tuple[str, int]]
"""An address family and an address of it."""


class TargetDialer:
    """Dials targets, each within `timeout` seconds, its name's resolution included; above `limit` at a time a dial is
    refused as busy."""

    def __init__(self, engine: Engine, *, timeout: float = 10.0, limit: int = 256) -> None:
        self.engine = engine
        self.timeout = timeout
        self._limit = limit
        self._tasks = Tasks()
        self._attempts: set[_Attempt] = set()

    @property
    def pending(self) -> int:
        """Dials that are under way."""
        return len(self._attempts)

    def dial(self, host: str, port: int, done: Done) -> None:
        """Connect to `host:port`; `done` gets the connected socket, prepared for a pump, or the problem."""
        if self.pending >= self._limit:
            done(Problem(503, "busy", f"{self.pending} dials are under way already"))
            return
        attempt = _Attempt(self, f"{host}:{port}", done)
        self._attempts.add(attempt)
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:
            self._tasks.spawn(self._resolve(host, port, attempt), name=f"resolve {host}")
        else:
            attempt.connect([(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))])

    async def close(self) -> None:
        """Give up what is under way; nobody is told."""
        await self._tasks.cancel()
        for attempt in list(self._attempts):
            attempt.give_up()

    async def _resolve(self, host: str, port: int, attempt: _Attempt) -> None:
        try:
            found = await self.engine.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            attempt.connect([], why=f"the name cannot be resolved: {error.strerror or error}")
        else:
            attempt.connect([(family, (str(address[0]), int(address[1]))) for family, _, _, _, address in found])
        self.engine.settle()

    def ended(self, attempt: _Attempt) -> None:
        """An attempt has ended."""
        self._attempts.discard(attempt)


class _Attempt:
    """One target being dialled: its addresses one after the other, each with an equal share of the time."""

    __slots__ = ("_dialer", "_done", "_late", "_loop", "_name", "_next", "_places", "_share", "_socket")

    def __init__(self, dialer: TargetDialer, name: str, done: Done) -> None:
        self._dialer = dialer
        self._loop = dialer.engine.loop
        self._name = name
        self._done = done
        self._places: list[Place] = []
        self._share = dialer.timeout
        self._socket: socket.socket | None = None
        self._next: asyncio.TimerHandle | None = None
        self._late = self._loop.call_later(dialer.timeout, self._time_is_up)

    def connect(self, places: list[Place], why: str = "it has no address") -> None:
        """Try these in order, unless the time is up already; without any, fail for `why`."""
        if not self._late.cancelled():
            self._places = places
            self._share = self._dialer.timeout / max(1, len(places))
            self._try(why)

    def give_up(self) -> None:
        """End without a word."""
        self._late.cancel()
        self._drop()
        self._dialer.ended(self)

    def _try(self, why: str) -> None:
        """Begin with the next address; without one, fail for `why` the last one failed."""
        self._drop()
        while self._places:
            family, address = self._places.pop(0)
            try:
                self._socket = socket.socket(family, socket.SOCK_STREAM)
                prepare(self._socket)
                error = self._socket.connect_ex(address)
            except OSError as failure:
                error = failure.errno or 0
            if self._socket is not None and error in (0, EINPROGRESS):
                self._loop.add_writer(self._socket.fileno(), self._connected, self._socket)
                if self._places:
                    self._next = self._loop.call_later(self._share, self._try, "no answer")
                return
            why = os.strerror(error)
            self._drop()
        self._end(Problem(502, "unreachable", f"{self._name}: {why}"))

    def _connected(self, sock: socket.socket) -> None:
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._try(os.strerror(error))
        else:
            self._loop.remove_writer(sock.fileno())
            self._socket = None
            self._end(sock)
        self._dialer.engine.settle()

    def _time_is_up(self) -> None:
        self._end(Problem(504, "timeout", f"{self._name}: not reached within {self._dialer.timeout:g} s"))
        self._dialer.engine.settle()

    def _end(self, result: socket.socket | Problem) -> None:
        self.give_up()
        self._done(result)

    def _drop(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None
