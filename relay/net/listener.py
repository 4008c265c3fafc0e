"""The doors for sessions: accept, TLS handshake and request head, all within one absolute deadline (promise P2).

A refused peer costs one socket and a bounded buffer. Strangers are counted, in all and per address, until they have
become a session or their socket is closed; above the cap the one that has been here longest is shed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from relay.net.acceptor import Acceptor
from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.net.tasks import Tasks
from relay.protocol.errors import BadHead
from relay.protocol.problem import Problem

log = logging.getLogger(__name__)


BATCH: Final = 8
"""Connections taken per wake-up: a handshake takes a millisecond of this process, and all streams wait meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    """What strangers may cost (faults.md, section 4)."""

    deadline: float = 10.0
    """Seconds from accept until TLS and the whole head are there; not extended by bytes (R35)."""
    strangers: int = 256
    strangers_per_address: int = 16


class Listener:
    """One door, over listening `sockets`, which it owns. `serve` gets the connection and its request head, and either
    starts a session on it or closes it; what it leaves undone is aborted when it returns."""

    def __init__(
        self,
        engine: Engine,
        sockets: list[socket.socket],
        *,
        context: Callable[[], ssl.SSLContext],
        serve: Callable[[Connection, bytes], Awaitable[None]],
        limits: DoorLimits | None = None,
    ) -> None:
        self._engine = engine
        self._context = context
        self._serve = serve
        self._limits = limits or DoorLimits()
        self._tasks = Tasks()
        self._strangers: dict[asyncio.Task[None], str] = {}
        self.shed = 0
        """Strangers that were cut for newer ones."""
        self._acceptor = Acceptor(engine.loop, sockets, on_accepted=self._let_in, batch=BATCH)

    async def close(self) -> None:
        """Stop listening and cut who is still at the door."""
        self._acceptor.close()
        await self._tasks.cancel()

    def _let_in(self, peer: socket.socket, address: str) -> None:
        self._make_room(address)
        task = self._tasks.spawn(self._admit(peer, address), name=f"door {address}")
        self._strangers[task] = address
        task.add_done_callback(partial(self._known, peer))

    def _known(self, peer: socket.socket, task: asyncio.Task[None]) -> None:
        self._strangers.pop(task, None)
        peer.close()  # a task that is shed before its first step has not taken it over

    def _make_room(self, address: str) -> None:
        same = [task for task, other in self._strangers.items() if other == address]
        if len(same) >= self._limits.strangers_per_address:
            self._shed(same[0])
        elif len(self._strangers) >= self._limits.strangers:
            self._shed(next(iter(self._strangers)))

    def _shed(self, task: asyncio.Task[None]) -> None:
        self.shed += 1
        del self._strangers[task]
        task.cancel()

    async def _admit(self, peer: socket.socket, address: str) -> None:
        try:
            connection = Connection(self._engine, peer, self._context(), server=True, source=address)
        except OSError as error:
            log.debug("%s left before TLS: %s", address, error)
            return
        try:
            head = await self._head(connection)
            if head is not None:
                await self._serve(connection, head)
            await connection.wait_closed()
        finally:
            connection.release()

    async def _head(self, connection: Connection) -> bytes | None:
        try:
            async with asyncio.timeout(self._limits.deadline):
                await connection.handshake()
                return await connection.read_head()
        except TimeoutError:
            log.info("%s: no complete request within %g s", connection.source, self._limits.deadline)
        except BadHead as error:
            log.info("%s: %s", connection.source, error)
            connection.close(Problem(400, "bad_request", str(error)).encode())
        except ssl.SSLError as error:
            log.info("%s: TLS failed: %s", connection.source, error.reason or error)
            connection.close()  # and not aborted: a reset would overtake the alert that says why
        except (EOFError, OSError) as error:
            log.debug("%s left: %s", connection.source, error)
        return None
