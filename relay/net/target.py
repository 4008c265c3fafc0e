"""Reaching a target behind the agent: bounded, non-blocking connects, names resolved beside the loop."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from errno import EALREADY, EINPROGRESS, EIO
from functools import lru_cache
from typing import Any, Final

from relay.net.engine import Engine
from relay.net.pump import prepare
from relay.net.tasks import Tasks
from relay.protocol.problem import Problem

Done = Callable[["socket.socket | Problem"], None]
Place = tuple[int, tuple[Any, ...]]
"""Address family and socket address."""
RESOLVERS: Final = 8
"""Threads that resolve targets' names. Not the loop's own: names that nobody answers for must not keep the agent from
resolving its server's."""


@lru_cache(1024)
def _family_of(host: str) -> int | None:
    """The family of a literal address; None for a name."""
    try:
        return socket.AF_INET if ipaddress.ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return None


def _addresses(host: str, port: int) -> list[Place]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


class TargetDialer:
    """Dials targets. `pending` counts the dials that are under way; above `limit` a dial is refused as busy."""

    def __init__(self, engine: Engine, *, timeout: float = 10.0, limit: int = 256) -> None:
        """`timeout` is for one dial, in seconds, the resolution of its name included."""
        self.engine = engine
        self.timeout = timeout
        self._limit = limit
        self._tasks = Tasks()
        self._threads = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="resolve")
        self._attempts: set[_Attempt] = set()
        self._resolving = 0

    @property
    def pending(self) -> int:
        """Dials that are under way."""
        return len(self._attempts) + self._resolving

    def dial(self, host: str, port: int, done: Done) -> None:
        """Connect to `host:port`; `done` gets the connected socket, prepared for a pump, or the problem. It may be
        called before this returns."""
        if self.pending >= self._limit:
            done(Problem(503, "busy", f"{self.pending} dials are under way already"))
            return
        family = _family_of(host)
        if family is None:
            self._resolving += 1
            self._tasks.spawn(self._resolve(host, port, done), name=f"resolve {host}")
        else:
            self._connect([(family, (host, port))], self.timeout, done)

    async def close(self) -> None:
        """Give up every dial; nobody is told."""
        await self._tasks.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._attempts:
            self._attempts.pop().give_up()

    async def _resolve(self, host: str, port: int, done: Done) -> None:
        loop = self.engine.loop
        until = loop.time() + self.timeout
        try:
            async with asyncio.timeout_at(until):
                found = await loop.run_in_executor(self._threads, _addresses, host, port)
        except TimeoutError:
            done(Problem(504, "timeout", f"{host} was not resolved within {self.timeout:g} s"))
        except OSError as error:
            done(Problem(502, "unreachable", f"{host} cannot be resolved: {error.strerror or error}"))
        except UnicodeError as error:
            done(Problem(502, "unreachable", f"{host} cannot be resolved: {error}"))
        else:
            self._connect(found, until - loop.time(), done)
        finally:
            self._resolving -= 1
            self.engine.settle()

    def _connect(self, places: Sequence[Place], seconds: float, done: Done) -> None:
        attempt = _Attempt(self, places, seconds, done)
        self._attempts.add(attempt)
        attempt.go_on()

    def ended(self, attempt: _Attempt) -> None:
        """An attempt is over."""
        self._attempts.discard(attempt)


class _Attempt:
    """One dial: the places of a name, one after the other, each with its share of the time."""

    __slots__ = ("_dialer", "_done", "_name", "_problem", "_share", "_socket", "_timer", "_todo")

    def __init__(self, dialer: TargetDialer, places: Sequence[Place], seconds: float, done: Done) -> None:
        self._dialer = dialer
        self._done = done
        self._todo = list(places)
        self._share = seconds / len(places)
        self._name = ""
        self._problem = Problem(502, "unreachable")
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def go_on(self) -> None:
        """Try the places that are left, until one is connected or has to be waited for."""
        while self._todo:
            family, address = self._todo.pop(0)
            self._name = f"{address[0]}:{address[1]}"
            error = self._begin(family, address)
            if error == EALREADY:
                return
            if not error:
                self._connected()
                return
            self._failed(error)
        self._dialer.ended(self)
        self._done(self._problem)

    def _begin(self, family: int, address: tuple[Any, ...]) -> int:
        """0 when connected, EALREADY when that is waited for, else the error."""
        try:
            sock = self._socket = socket.socket(family, socket.SOCK_STREAM)
            prepare(sock)
            error = sock.connect_ex(address)
            # A target on this host has answered by now, and to ask again costs less than a turn of the loop.
            if error == EINPROGRESS:
                error = sock.connect_ex(address)
        except OSError as failure:
            return failure.errno or EIO
        if error == EALREADY:
            loop = self._dialer.engine.loop
            loop.add_writer(sock.fileno(), self._on_writable, sock)
            self._timer = loop.call_later(self._share, self._late)
        return error

    def _on_writable(self, sock: socket.socket) -> None:
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._unwatch()
        if error:
            self._failed(error)
            self.go_on()
        else:
            self._connected()
        self._dialer.engine.settle()

    def _late(self) -> None:
        self.give_up()
        self._problem = Problem(504, "timeout", f"{self._name}: no answer within {self._share:g} s")
        self.go_on()
        self._dialer.engine.settle()

    def _connected(self) -> None:
        sock, self._socket = self._socket, None
        self._dialer.ended(self)
        if sock is not None:
            self._done(sock)

    def _failed(self, error: int) -> None:
        self.give_up()
        self._problem = Problem(502, "unreachable", f"{self._name}: {os.strerror(error)}")

    def give_up(self) -> None:
        """Close what is being connected."""
        self._unwatch()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _unwatch(self) -> None:
        if self._timer is not None and self._socket is not None:
            self._timer.cancel()
            self._timer = None
            self._dialer.engine.loop.remove_writer(self._socket.fileno())
