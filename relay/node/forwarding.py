"""Finding a stream its way to an agent: a session held here, else the node that holds one (design.md, section 3).

What is known already is followed at once, without a task or a thread. Another way is tried only when the stream surely
did not reach the agent (faults.md, R8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from relay.net.channel import Channel
from relay.net.mux import Mux
from relay.node.agents import Agents
from relay.node.directory import Directory
from relay.node.peers import Peers
from relay.node.runtime import Runtime
from relay.protocol.connect import ConnectRequest
from relay.protocol.problem import Problem
from relay.router import LeaseInfo, Local, NoAgent, Peer, route
from tunnelmesh.common.errors import DomainError

OPEN_TIMEOUT: Final = 15.0
"""Seconds from a CONNECT to its answer: more than the agent gives its target, so that the agent's own answer comes."""
WAYS: Final = 4
"""Ways that are tried for one stream."""
NOT_REACHED: Final = frozenset({"no_agent", "peer_unreachable"})
"""Problems after which another way may be tried. All others may have reached the agent."""

Answer = Callable[["Channel | Problem"], None]


class Forwarder:
    """Opens streams to agents, wherever they are. `peers` is None on a node without a relay; `closed()` is why this
    node serves no streams now, or None."""

    def __init__(
        self, runtime: Runtime, *, agents: Agents, peers: Peers | None, closed: Callable[[], str | None]
    ) -> None:
        self.me = runtime.me
        self.agents = agents
        self._closed = closed
        self._most = runtime.limits.max_streams
        self.peers = peers
        self.engine = runtime.engine
        self.directory = Directory(runtime)

    def open(self, agent_id: str, request: ConnectRequest, answer: Answer, early: bytes = b"") -> None:
        """Open a stream to the agent, which dials what `request` names, with `early` bytes behind its head. `answer` is
        called once, in bounded time."""
        if why := self._closed():
            answer(Problem(503, "agent_unavailable", why))
        else:
            _Attempt(self, agent_id, request, answer, early).go_on()

    def relay(self, incoming: Channel, request: ConnectRequest) -> None:
        """A stream from another node: it goes to a session held here or nowhere, never on to a third node."""
        agent_id = request.agent
        if self._closed():
            incoming.refuse(Problem(404, "no_agent", "this node serves no streams now"))
            return
        if agent_id is None:
            incoming.refuse(Problem(400, "bad_request", "between nodes TunnelMesh-Agent names the agent"))
            return
        way = route(agent_id, local=self.agents.local(agent_id), leases=(), me=self.me.node_id)
        if not isinstance(way, Local):
            incoming.refuse(Problem(404, "no_agent", f"agent {agent_id} has no session here"))
            return
        session = self.agents.find(way.key).mux
        if full := self.full(session):
            incoming.refuse(full)
        else:
            session.relay(incoming, request.towards(None))

    def full(self, session: Mux) -> Problem | None:
        """Why the session takes no stream more: the other side would only reset it, without a reason."""
        if session.active < self._most:
            return None
        return Problem(503, "busy", f"the session has {session.active} streams")


class _Attempt:
    """One stream that is looking for its way."""

    __slots__ = ("_agent_id", "_answer", "_early", "_leases", "_looked_up", "_owner", "_request", "_tried")

    def __init__(self, owner: Forwarder, agent_id: str, request: ConnectRequest, answer: Answer, early: bytes) -> None:
        self._owner = owner
        self._agent_id = agent_id
        self._request = request
        self._answer = answer
        self._early = early
        self._leases: Sequence[LeaseInfo] | None = owner.directory.known(agent_id) if owner.peers else ()
        """None while nothing recent is known."""
        self._looked_up = False
        self._tried: list[Local | Peer] = []

    def go_on(self) -> None:
        """Take the next way that is known; look for leases when none is."""
        owner, agent_id = self._owner, self._agent_id
        local = owner.agents.local(agent_id)
        way = route(agent_id, local=local, leases=self._leases or (), me=owner.me.node_id, tried=self._tried)
        if not isinstance(way, NoAgent) and len(self._tried) < WAYS:
            self._tried.append(way)
            self._follow(way)
        elif self._leases is None and not self._looked_up:
            self._looked_up = True
            owner.directory.look_up(agent_id, self._found)
        else:
            self._answer(Problem(503, "agent_unavailable", way.reason if isinstance(way, NoAgent) else "too many ways"))

    def _found(self, leases: list[LeaseInfo] | DomainError) -> None:
        if isinstance(leases, DomainError):
            self._answer(Problem(503, "agent_unavailable", f"where it is cannot be known now: {leases.message}"))
        else:
            self._leases = leases
            self.go_on()
        self._owner.engine.settle()

    def _follow(self, way: Local | Peer) -> None:
        owner = self._owner
        if isinstance(way, Local):
            self._open(owner.agents.find(way.key).mux, self._request, self._answer)
        elif owner.peers is not None:
            owner.peers.ask(way, self._peer_ready)

    def _open(self, session: Mux, request: ConnectRequest, answer: Answer) -> None:
        if full := self._owner.full(session):
            answer(full)
        else:
            session.open(request, answer, OPEN_TIMEOUT, self._early)

    def _peer_ready(self, session: Mux | Problem) -> None:
        if isinstance(session, Problem):
            self._answered(session)
        elif not session.can_open:
            self._answered(Problem(502, "peer_unreachable", "the session ended before the stream began"))
        else:
            self._open(session, self._request.towards(self._agent_id), self._answered)

    def _answered(self, result: Channel | Problem) -> None:
        if isinstance(result, Problem) and result.code in NOT_REACHED:
            self._owner.directory.forget(self._agent_id)
            if not self._looked_up:
                self._leases = None
            self.go_on()
        else:
            self._answer(result)
