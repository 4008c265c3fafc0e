"""The two doors for sessions, /relay for nodes and /agent for agents: read the request, have it judged, answer.

The order of the checks, the codes and what a caller is told are design.md's, section 3; the judgement itself is
`relay.gate` and `tokens.authenticate`, behind the registry. What exactly was wrong goes to the log only.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Final, Protocol

from relay import gate
from relay.bounds import session_limits
from relay.metrics import Metrics
from relay.net import tls
from relay.net.connection import Connection
from relay.net.mux import Mux
from relay.node.agents import Agents, AgentSession
from relay.node.callers import Caller, Callers
from relay.node.forwarding import Forwarder
from relay.node.leases import Leases, close_reason
from relay.node.runtime import Me, Runtime
from relay.protocol.errors import BadHead
from relay.protocol.problem import Problem
from relay.protocol.upgrade import AGENT, RELAY, Accepted, UpgradeRequest, decode_request
from tunnelmesh.common.errors import DomainError
from tunnelmesh.common.ids import is_node_id
from tunnelmesh.common.secrets import Secret

log = logging.getLogger(__name__)

ADMISSION: Final = 30.0
"""Seconds for a judgement, database included."""
AGENT_SESSIONS: Final = 8192
NODE_SESSIONS: Final = 1024
FOREIGN: Final = Problem(403, "forbidden", "the streams of this session are opened by the node")


class Admission(Protocol):
    """Who judges the callers at one path."""

    path: str
    kind: str

    async def admit(self, connection: Connection, request: UpgradeRequest) -> gate.Refusal | None:
        """Answer 101 and start a session, or say why not."""


class Door:
    """Serves one listener. `closed()` is why nobody is let in now, or None."""

    def __init__(self, admission: Admission, *, metrics: Metrics, closed: Callable[[], str | None]) -> None:
        self._admission = admission
        self._metrics = metrics
        self._closed = closed

    async def serve(self, connection: Connection, head: bytes) -> None:
        """Judge one caller; after a 101 the connection belongs to a session."""
        try:
            async with asyncio.timeout(ADMISSION):
                await self._judge(connection, head)
        except (OSError, TimeoutError) as error:
            log.info("%s from %s left before the answer: %r", self._admission.kind, connection.source, error)

    async def _judge(self, connection: Connection, head: bytes) -> None:
        try:
            request = decode_request(head)
            if request.path != self._admission.path:
                raise BadHead(f"this listener serves {self._admission.path}, not {request.path}")
            if not is_node_id(request.name):
                raise BadHead("the caller's name is no id: 1-63 of a-z, 0-9 and '-'")
        except BadHead as error:
            self._refuse(connection, "", Problem(400, "bad_request", str(error)), str(error))
            return
        if why := self._closed():
            problem = Problem(503, "unavailable", "This node takes no sessions now.", gate.RETRY_AFTER_SECONDS)
            self._refuse(connection, request.name, problem, why)
        elif refusal := await self._admission.admit(connection, request):
            problem = Problem(refusal.status, refusal.code, refusal.detail, refusal.retry_after)
            self._refuse(connection, request.name, problem, f"{refusal.reason}; {refusal.hint}")
        else:
            self._metrics.admission(self._admission.kind, "admitted")

    def _refuse(self, connection: Connection, name: str, problem: Problem, why: str) -> None:
        kind = self._admission.kind
        self._metrics.admission(kind, problem.code)
        log.warning("%s %.80r from %s refused, %s: %s", kind, name, connection.source, problem.code, why)
        connection.close(problem.encode())


class NodeAdmission:
    """/relay. The streams of its sessions lead to agents that are held here."""

    path = RELAY
    kind = "node"

    def __init__(self, runtime: Runtime, *, callers: Callers, forwarder: Forwarder) -> None:
        self._runtime = runtime
        self._callers = callers
        self._forwarder = forwarder

    async def admit(self, connection: Connection, request: UpgradeRequest) -> gate.Refusal | None:
        """Rows 2-9 of the table."""
        certificate = connection.peer_certificate() or b""
        claim = gate.NodeClaim(
            claimed_id=request.name,
            epoch=request.epoch or 0,
            token=_secret(request.token),
            san_ids=tls.dns_names(certificate),
            fingerprint=tls.fingerprint(certificate),
            source=connection.source,
        )
        try:
            verdict = await self._runtime.threads.run(
                self._runtime.registry.admit_node, claim, has_capacity=len(self._callers) < NODE_SESSIONS
            )
        except DomainError:
            verdict = gate.facts_unknown()
        if isinstance(verdict, gate.Refusal):
            return verdict
        await _welcome(connection, self._runtime.me)
        self._start(connection, verdict)
        return None

    def _start(self, connection: Connection, admitted: gate.Admitted) -> None:
        def closed(mux: Mux, reason: str, code: int | None) -> None:
            self._callers.remove(mux)
            self._runtime.metrics.ended(self.kind, close_reason(code))
            log.info("node %s: its session has ended: %s", admitted.node_id, reason)

        mux = Mux(
            self._runtime.engine,
            connection,
            client=False,
            on_stream=self._forwarder.relay,
            on_closed=closed,
            limits=session_limits(self._runtime.limits),
        )
        log.info("node %s at epoch %d: session from %s", admitted.node_id, admitted.epoch, connection.source)
        self._callers.add(Caller(admitted.node_id, admitted.epoch, mux))
        _start(mux)


class AgentAdmission:
    """/agent. A session is announced by a lease before its agent hears the 101."""

    path = AGENT
    kind = "agent"

    def __init__(self, runtime: Runtime, *, agents: Agents, leases: Leases) -> None:
        self._runtime = runtime
        self._agents = agents
        self._leases = leases

    async def admit(self, connection: Connection, request: UpgradeRequest) -> gate.Refusal | None:
        """Token and agent id; then the lease, whose generation decides between two sessions of one agent."""
        try:
            verdict = await self._runtime.threads.run(
                self._runtime.registry.authenticate_agent,
                _secret(request.token),
                agent_id=request.name,
                source=connection.source,
                has_capacity=len(self._agents) < AGENT_SESSIONS,
            )
            if isinstance(verdict, gate.Refusal):
                return verdict
            # Somebody who has left must not get a newer generation than the session he has meanwhile.
            connection.check_waiting()
            lease = await self._leases.open(verdict.agent_id, uuid.uuid4().hex)
        except DomainError as error:
            log.warning("agent %s cannot be admitted: %s", request.name, error.message)
            return gate.facts_unknown()
        try:
            await _welcome(connection, self._runtime.me)
            session = AgentSession(
                verdict.agent_id, lease, self._mux(connection, verdict.agent_id, lease.connection_id)
            )
        except BaseException:
            self._leases.close(lease, "left")
            raise
        log.info("agent %s: session from %s, generation %d", session.agent_id, connection.source, lease.generation)
        self._agents.add(session)
        _start(session.mux)
        return None

    def _mux(self, connection: Connection, agent_id: str, connection_id: str) -> Mux:
        def closed(_: Mux, reason: str, code: int | None) -> None:
            session = self._agents.remove(connection_id)
            self._leases.close(session.lease, close_reason(code))
            self._runtime.metrics.ended(self.kind, close_reason(code))
            log.info("agent %s: session has ended: %s", agent_id, reason)

        return Mux(
            self._runtime.engine,
            connection,
            client=False,
            on_stream=lambda channel, _: channel.refuse(FOREIGN),
            on_closed=closed,
            limits=session_limits(self._runtime.limits),
        )


def _secret(token: str | None) -> Secret | None:
    return None if token is None else Secret(token)


async def _welcome(connection: Connection, me: Me) -> None:
    await connection.send(Accepted(me.node_id, me.epoch).encode())


def _start(mux: Mux) -> None:
    """Begin, unless the session lost against a newer one at the very moment it was taken in."""
    if not mux.closed:
        mux.start()
