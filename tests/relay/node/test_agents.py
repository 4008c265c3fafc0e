"""Which of an agent's sessions stays (R2, P8), and what the router and the heartbeat hear of them."""

from __future__ import annotations

from nodes.facts import Lease, LeaseLoad
from relay.node.agents import DRAINING_SESSIONS, Agents, AgentSession
from relay.protocol.errors import GoAwayCode
from relay.router import LocalSession
from tests.support.sessions import FakeMux, as_mux


def session(generation: int, mux: FakeMux, *, agent: str = "agent-1") -> AgentSession:
    return AgentSession(agent, Lease(f"{agent}-{generation}", generation), as_mux(mux))


class TestNewestGeneration:
    def test_replaces_the_older_session(self) -> None:
        agents, old, new = Agents(), FakeMux(), FakeMux()
        agents.add(session(1, old))
        agents.add(session(2, new))
        assert (old.closes, new.closes) == ([GoAwayCode.SUPERSEDED], [])

    def test_wins_when_admissions_overtake_each_other(self) -> None:
        agents, late, newest = Agents(), FakeMux(), FakeMux()
        agents.add(session(2, newest))
        agents.add(session(1, late))
        assert (late.closes, newest.closes) == ([GoAwayCode.SUPERSEDED], [])

    def test_leaves_a_draining_session_to_its_streams(self) -> None:
        agents, draining = Agents(), FakeMux(draining=True)
        agents.add(session(1, draining))
        agents.add(session(2, FakeMux()))
        assert draining.closes == []

    def test_lets_only_so_many_drain(self) -> None:
        """Else one agent's token takes every place: connect, GOAWAY, keep a stream, connect again."""
        agents, muxes = Agents(), [FakeMux(draining=True) for _ in range(DRAINING_SESSIONS + 2)]
        for generation, mux in enumerate([*muxes, FakeMux()]):
            agents.add(session(generation, mux))
        assert [mux.closed for mux in muxes] == [True] * 2 + [False] * DRAINING_SESSIONS

    def test_leaves_other_agents_alone(self) -> None:
        agents, other = Agents(), FakeMux()
        agents.add(session(1, other, agent="agent-2"))
        agents.add(session(2, FakeMux()))
        assert other.closes == []


class TestTable:
    def test_router_sees_what_takes_streams(self) -> None:
        agents = Agents()
        agents.add(session(1, FakeMux(draining=True)))
        agents.add(session(2, FakeMux(active=3)))
        assert agents.local("agent-1") == [LocalSession("agent-1-2", 2, 3)]
        assert agents.local("agent-2") == []

    def test_heartbeat_sees_all_of_them(self) -> None:
        agents = Agents()
        agents.add(session(1, FakeMux(active=1, draining=True)))
        agents.add(session(2, FakeMux(active=3)))
        assert agents.loads() == [LeaseLoad("agent-1-1", 1, 1, 0), LeaseLoad("agent-1-2", 2, 3, 100)]

    def test_late_end_of_an_old_session_changes_nothing_for_the_new_one(self) -> None:
        agents = Agents()
        old, new = session(1, FakeMux()), session(2, FakeMux())
        agents.add(old)
        agents.add(new)
        assert agents.remove("agent-1-1") is old
        assert (len(agents), list(agents), agents.find("agent-1-2")) == (1, [new], new)

    def test_last_one_leaves_nothing(self) -> None:
        agents = Agents()
        agents.add(session(1, FakeMux()))
        agents.remove("agent-1-1")
        assert (len(agents), agents.local("agent-1"), agents.loads()) == (0, [], [])
