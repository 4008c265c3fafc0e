"""The agents' sessions that this node holds.

An agent has one session to a node. A newer generation replaces an older one at once (faults.md, R2: a stale session
must not keep the agent out), except one that drains: that has been told to end, and may finish its streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from nodes.facts import Lease, LeaseLoad
from relay.net.mux import Mux
from relay.protocol.errors import GoAwayCode
from relay.router import LocalSession

HEALTHY, DRAINING = 100, 0
DRAINING_SESSIONS: Final = 4
"""Of one agent or node. Who drains a session has another; without a bound one token could take every place here."""


@dataclass(frozen=True, slots=True, eq=False)
class AgentSession:
    """A session with the lease that announces it."""

    agent_id: str
    lease: Lease
    mux: Mux


class Agents:
    """The sessions by the connection id of their lease."""

    def __init__(self) -> None:
        self._sessions: dict[str, AgentSession] = {}
        self._of_agent: dict[str, list[AgentSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(list(self._sessions.values()))

    def add(self, session: AgentSession) -> None:
        """Take a session in. Of two that take streams, the one with the older generation is closed; that may be the new
        one, when two admissions overtook each other. Of those that drain, the oldest beyond `DRAINING_SESSIONS` too."""
        others = list(self._of_agent.get(session.agent_id, ()))
        rivals = [other for other in others if other.mux.can_open]
        draining = [other for other in others if other not in rivals]
        self._sessions[session.lease.connection_id] = session
        self._of_agent.setdefault(session.agent_id, []).append(session)
        newest = max([session, *rivals], key=lambda each: each.lease.generation)
        for other in (session, *rivals):
            if other is not newest:
                other.mux.close(GoAwayCode.SUPERSEDED, f"superseded by generation {newest.lease.generation}")
        for other in draining[:-DRAINING_SESSIONS]:
            other.mux.close(GoAwayCode.SUPERSEDED, f"more than {DRAINING_SESSIONS} sessions of this agent drain")

    def remove(self, connection_id: str) -> AgentSession:
        """The session has ended; it is given back."""
        session = self._sessions.pop(connection_id)
        others = self._of_agent[session.agent_id]
        others.remove(session)
        if not others:
            del self._of_agent[session.agent_id]
        return session

    def find(self, connection_id: str) -> AgentSession:
        """The session that `local` named."""
        return self._sessions[connection_id]

    def local(self, agent_id: str) -> list[LocalSession]:
        """Where a stream to this agent can go from here, for the router."""
        return [
            LocalSession(each.lease.connection_id, each.lease.generation, each.mux.active)
            for each in self._of_agent.get(agent_id, ())
            if each.mux.can_open
        ]

    def loads(self) -> list[LeaseLoad]:
        """What each lease carries now."""
        return [
            LeaseLoad(
                each.lease.connection_id,
                each.lease.generation,
                each.mux.active,
                HEALTHY if each.mux.can_open else DRAINING,
            )
            for each in self._sessions.values()
        ]
