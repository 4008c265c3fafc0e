"""The parts of a serving node, wired together: made once the process has its epoch, started, drained, closed."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

from nodes.facts import HEARTBEAT_SECONDS, Standing
from relay.bounds import door_limits
from relay.net.listener import Listener
from relay.node.agents import Agents
from relay.node.callers import Callers
from relay.node.certificates import NodeFiles
from relay.node.doors import Admission, AgentAdmission, Door, NodeAdmission
from relay.node.entries import Entries
from relay.node.forwarding import Forwarder
from relay.node.health import HealthEndpoint
from relay.node.heartbeat import Heartbeat
from relay.node.leases import Leases
from relay.node.peers import Credentials, Peers
from relay.node.runtime import Runtime
from relay.protocol.errors import GoAwayCode
from tunnelmesh.common.errors import DomainError

log = logging.getLogger(__name__)

TIDY: Final = 60.0
"""Seconds between two looks for sessions to other nodes that nobody uses any more."""
Sockets = Mapping[str, list[socket.socket]]
"""Listening sockets by name: relay, agents, admin. A door that this node does not have has none."""


class Node:
    """A node at work. `fenced` is set when a newer process has taken its place."""

    def __init__(self, runtime: Runtime, *, files: NodeFiles, credentials: Credentials | None) -> None:
        self.fenced = asyncio.Event()
        self.stopping = False
        self.runtime = runtime
        self._files = files
        self._listeners: list[Listener] = []
        self.agents = Agents()
        self.callers = Callers()
        self.leases = Leases(runtime)
        self.peers = Peers(runtime, credentials) if credentials else None
        self.heartbeat = Heartbeat(
            runtime, loads=self.agents.loads, unreachable=self._unreachable, on_change=self._standing_changed
        )
        self.forwarder = Forwarder(runtime, agents=self.agents, peers=self.peers, closed=self.closed)
        self.entries = Entries(runtime, forwarder=self.forwarder, closed=self.closed)
        self.health = HealthEndpoint(readiness=self.readiness, facts=self._facts, metrics=runtime.metrics)
        self._watch()

    def closed(self) -> str | None:
        """Why this node takes no new work, or None."""
        return "this node is stopping" if self.stopping else self.heartbeat.suspended

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self, sockets: Sockets) -> None:
        """Begin to serve. Raises DomainError when the first heartbeat cannot be written."""
        tasks = self.runtime.tasks
        await self.heartbeat.beat()
        self.heartbeat.judge()
        tasks.spawn(self.leases.run(), name="leases", critical=True)
        if not self.closed():
            await self.entries.follow()
        if self._files.relay is not None:
            admission = NodeAdmission(self.runtime, callers=self.callers, forwarder=self.forwarder)
            self._listen(sockets["relay"], self._files.relay.server, admission)
        if self._files.agents is not None:
            self._listen(
                sockets["agents"],
                self._files.agents,
                AgentAdmission(self.runtime, agents=self.agents, leases=self.leases),
            )
        await self.health.start(sockets["admin"])
        tasks.spawn(self.heartbeat.run(), name="heartbeat", critical=True)
        tasks.spawn(self.entries.run(), name="entries", critical=True)
        tasks.spawn(self._tidy(), name="tidy", critical=True)

    async def drain(self, seconds: float) -> None:
        """Take no new work, let open streams end for up to `seconds`, then end every session (P11)."""
        self.stopping = True
        self.entries.close()
        if self.peers is not None:
            self.peers.stop()
        for listener in self._listeners:
            await listener.close()
        await self._say_draining()
        await asyncio.gather(*(mux.drain(seconds) for mux in list(self.runtime.engine.muxes)))

    async def close(self) -> None:
        """End at once what is left, and give the leases back."""
        self.stopping = True
        self.entries.close()
        self._close_sessions(GoAwayCode.STALE_EPOCH if self.fenced.is_set() else GoAwayCode.NORMAL, "this node ends")
        for listener in self._listeners:
            await listener.close()
        await self.health.close()
        if not self.fenced.is_set():
            await self._give_leases_back()

    def _listen(self, sockets: list[socket.socket], context: ssl.SSLContext, admission: Admission) -> None:
        door = Door(admission, metrics=self.runtime.metrics, closed=self.closed)
        limits = door_limits(self.runtime.limits)
        self._listeners.append(
            Listener(self.runtime.engine, sockets, context=lambda: context, serve=door.serve, limits=limits)
        )

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY)
            if self.peers is not None:
                self.peers.tidy()

    async def _say_draining(self) -> None:
        self.heartbeat.draining = True
        try:
            await self.heartbeat.beat()
        except DomainError as error:
            log.warning("the fleet is not told that this node drains: %s", error.message)

    async def _give_leases_back(self) -> None:
        try:
            await self.leases.end("shutdown")
        except DomainError as error:
            log.warning("leases are not given back, they expire with this node's record: %s", error.message)

    # -- standing --------------------------------------------------------------------------------------------------

    def _standing_changed(self) -> None:
        """The record says something new of this node; sessions are told why they end (design.md, section 3)."""
        suspended = self.heartbeat.suspended
        if self.heartbeat.standing is Standing.FENCED:
            self.fenced.set()
        elif suspended:
            self.entries.close()
            if self.peers is not None:
                self.peers.stop()
            self._close_sessions(self.heartbeat.code, suspended)

    def _close_sessions(self, code: GoAwayCode, reason: str) -> None:
        for mux in list(self.runtime.engine.muxes):
            mux.close(code, reason)

    def _unreachable(self) -> list[str]:
        return self.peers.unreachable() if self.peers else []

    # -- what it says of itself ------------------------------------------------------------------------------------

    def readiness(self) -> dict[str, str | None]:
        """Each part that users depend on: None for well, else why not."""
        age = self.heartbeat.age
        return {
            "standing": self.closed(),
            "database": f"no answer for {age:.0f} s" if age > HEARTBEAT_SECONDS else None,
            "entries": "; ".join(f"{name}: {why}" for name, why in self.entries.errors.items()) or None,
        }

    def _facts(self) -> dict[str, Any]:
        return {
            "node": self.runtime.me.node_id,
            "epoch": self.runtime.me.epoch,
            "databaseAgeSeconds": round(self.heartbeat.age, 1),
            "agents": len(self.agents),
            "entries": len(self.entries),
        }

    def _watch(self) -> None:
        watch, muxes = self.runtime.metrics.watch, self.runtime.engine.muxes
        watch("agent_sessions", "Agents' sessions held here.", lambda: len(self.agents))
        watch("node_sessions", "Sessions that other nodes have dialled to this one.", lambda: len(self.callers))
        watch("peer_sessions", "Sessions that this node has dialled.", lambda: len(list(self.peers or ())))
        watch("streams", "Streams open in all sessions.", lambda: sum(mux.active for mux in muxes))
        watch("entries", "Open entries.", lambda: len(self.entries))
        watch("entry_errors", "Entries that cannot be opened.", lambda: len(self.entries.errors))
        watch("open_connections", "Users' connections now.", lambda: self.entries.connections)
        watch("database_age_seconds", "Since the database last answered.", lambda: self.heartbeat.age)
        watch("database_calls", "Calls to the database, running or waiting.", lambda: self.runtime.threads.pending)
        watch("ready", "1 while users are served.", lambda: float(not any(self.readiness().values())))
        watch("shed", "Strangers cut at the doors for newer ones.", lambda: sum(door.shed for door in self._listeners))
