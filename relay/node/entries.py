"""The entries of this node: kept equal to the routes in the database, which are read again every few seconds.

A port that cannot be bound is reported in log and health and tried again; it never stops the others. A route leads to
its service's target and nowhere else: that is the whole policy of an entry, what no route names is denied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from relay.ingress.tcp import TcpEntry
from relay.metrics import Metrics
from relay.net.acceptor import BindError, bind
from relay.node.forwarding import Forwarder
from relay.node.runtime import Runtime
from relay.protocol.connect import ConnectRequest, split_authority
from relay.protocol.errors import BadHead
from relay.protocol.problem import Problem
from relay.registry import Entry
from tunnelmesh.common.errors import DomainError

log = logging.getLogger(__name__)

POLL: Final = 3.0
"""Seconds between two looks at the routes."""


class Entries:
    """Opens and closes entries. `errors` says by route what keeps an entry from serving."""

    def __init__(self, runtime: Runtime, *, forwarder: Forwarder, closed: Callable[[], str | None]) -> None:
        """`closed()` is why this node serves nobody now, or None: until then the entries stay as they are."""
        self._runtime = runtime
        self._forwarder = forwarder
        self._closed = closed
        self._open: dict[Entry, TcpEntry] = {}
        self.errors: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def connections(self) -> int:
        """Users' connections now."""
        return sum(entry.active for entry in self._open.values())

    def port(self, name: str) -> int:
        """The port of the entry with this name; it matters where a route asks for port 0."""
        return next(served.port for entry, served in self._open.items() if entry.name == name)

    async def run(self) -> None:
        """Follow the routes until cancelled."""
        while True:
            await asyncio.sleep(POLL)
            if not self._closed():
                await self.follow()

    async def follow(self) -> None:
        """Read the routes and make the entries equal to them; without the database they stay as they are."""
        try:
            wanted = await self._runtime.threads.run(self._runtime.registry.entries, self._runtime.me.node_id)
        except DomainError as error:
            log.debug("the routes cannot be read: %s", error.message)
            return
        for entry in [entry for entry in self._open if entry not in wanted]:
            self._open.pop(entry).close()
            log.info("entry %s on %s closed: its route is gone or has changed", entry.name, entry.listen)
        errors = {}
        for entry in wanted:
            if entry not in self._open and (problem := await self._try_to_open(entry)):
                name = f"{entry.name} on {entry.listen}"
                errors[name] = problem
                if self.errors.get(name) != problem:
                    log.error("entry %s: %s", name, problem)
        self.errors = errors

    def close(self) -> None:
        """Accept no more users; their streams go on."""
        while self._open:
            self._open.popitem()[1].close()

    async def _try_to_open(self, entry: Entry) -> str | None:
        """What keeps the entry from being open, or None."""
        try:
            request = ConnectRequest(*split_authority(entry.target))
            sockets = await self._runtime.threads.run(bind, entry.listen.host, entry.listen.port)
        except BadHead as error:
            return f"target {entry.target!r}: {error}"
        except (BindError, DomainError) as error:
            return str(error)
        if why := self._closed():
            for sock in sockets:
                sock.close()
            return why
        self._open[entry] = TcpEntry(
            self._runtime.engine,
            sockets,
            open_stream=partial(self._forwarder.open, entry.agent_id, request),
            watcher=_Watch(entry, self._runtime.metrics),
        )
        log.info("entry %s on %s leads to %s at agent %s", entry.name, entry.listen, entry.target, entry.agent_id)
        return None


class _Watch:
    """Counts how an entry's connections begin, and logs each change between serving and refusing once."""

    def __init__(self, entry: Entry, metrics: Metrics) -> None:
        self._entry = entry
        self._metrics = metrics
        self._refusing = ""

    def opened(self) -> None:
        self._metrics.connection("opened")
        if self._refusing:
            self._refusing = ""
            log.info("entry %s serves again", self._entry.name)

    def refused(self, problem: Problem, source: str) -> None:
        self._metrics.connection(problem.code)
        level = logging.DEBUG if problem.code == self._refusing else logging.WARNING
        self._refusing = problem.code
        log.log(level, "entry %s refuses %s: %s: %s", self._entry.name, source, problem.code, problem.detail)
