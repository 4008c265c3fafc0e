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


class TargetDialer:
    """Dials targets. `pending` counts the dials that are under way; above `limit` a dial is refused as busy."""

    def __init__(self, engine: Engine, *, timeout: float = 10.0, limit: int = 256) -> None:
        self._engine = engine
        self._timeout = timeout
        self._limit = limit
        self._tasks = Tasks()
        self.pending = 0

    def dial(self, host: str, port: int, done: Done) -> None:
        """Connect to `host:port`; `done` gets the connected socket, prepared for a pump, or the problem."""
        if self.pending >= self._limit:
            done(Problem(503, "busy", f"{self.pending} dials are under way already"))
            return
        self.pending += 1
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            self._tasks.spawn(self._resolve(host, port, done), name=f"resolve {host}")
            return
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        _Attempt(self, family, (host, port), done)

    async def close(self) -> None:
        """Give up the names that are being resolved."""
        await self._tasks.cancel()

    async def _resolve(self, host: str, port: int, done: Done) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._engine.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError:
            self.finish(done, Problem(504, "timeout", f"{host} was not resolved within {self._timeout:.0f} s"))
        except OSError as error:
            self.finish(done, Problem(502, "unreachable", f"{host} cannot be resolved: {error.strerror or error}"))
        else:
            family, _, _, _, address = found[0]
            _Attempt(self, family, (str(address[0]), int(address[1])), done)

    def finish(self, done: Done, result: socket.socket | Problem) -> None:
        """An attempt has ended."""
        self.pending -= 1
        done(result)
        self._engine.settle()

    def attempt_timeout(self) -> float:
        """Seconds for one connect."""
        return self._timeout


class _Attempt:
    """One connect under way."""

    __slots__ = ("_dialer", "_done", "_name", "_socket", "_timer")

    def __init__(self, dialer: TargetDialer, family: int, address: tuple[str, int], done: Done) -> None:
        self._dialer, self._done = dialer, done
        self._name = f"{address[0]}:{address[1]}"
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        prepare(self._socket)
        loop = dialer._engine.loop
        self._timer = loop.call_later(dialer.attempt_timeout(), self._late)
        error = self._socket.connect_ex(address)
        if error in (0, EINPROGRESS):
            loop.add_writer(self._socket.fileno(), self._connected)
        else:
            self._end(Problem(502, "unreachable", f"{self._name}: {os.strerror(error)}"))

    def _connected(self) -> None:
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._dialer._engine.loop.remove_writer(self._socket.fileno())
        self._end(Problem(502, "unreachable", f"{self._name}: {os.strerror(error)}") if error else self._socket)

    def _late(self) -> None:
        self._dialer._engine.loop.remove_writer(self._socket.fileno())
        self._end(Problem(504, "timeout", f"{self._name}: no answer within {self._dialer.attempt_timeout():.0f} s"))

    def _end(self, result: socket.socket | Problem) -> None:
        self._timer.cancel()
        if isinstance(result, Problem):
            self._socket.close()
        self._dialer.finish(self._done, result)
