"""Of the sessions of one node the newest process's newest one stays."""

from __future__ import annotations

from relay.node.agents import DRAINING_SESSIONS
from relay.node.callers import Caller, Callers
from relay.protocol.errors import GoAwayCode
from tests.support.sessions import FakeMux, as_mux


def test_newer_process_ends_the_older_ones_session() -> None:
    callers, old = Callers(), FakeMux(draining=True)
    callers.add(Caller("node-b", 1, as_mux(old)))
    callers.add(Caller("node-b", 2, as_mux(FakeMux())))
    assert old.closes == [GoAwayCode.STALE_EPOCH]


def test_stale_process_that_comes_late_is_ended_itself() -> None:
    callers, new, late = Callers(), FakeMux(), FakeMux()
    callers.add(Caller("node-b", 2, as_mux(new)))
    callers.add(Caller("node-b", 1, as_mux(late)))
    assert (new.closes, late.closes) == ([], [GoAwayCode.STALE_EPOCH])


def test_second_session_of_a_process_supersedes_its_first() -> None:
    callers, first, second = Callers(), FakeMux(), FakeMux()
    callers.add(Caller("node-b", 1, as_mux(first)))
    callers.add(Caller("node-b", 1, as_mux(second)))
    assert (first.closes, second.closes) == ([GoAwayCode.SUPERSEDED], [])


def test_draining_session_may_finish_and_other_nodes_are_left_alone() -> None:
    callers, draining, other = Callers(), FakeMux(draining=True), FakeMux()
    callers.add(Caller("node-b", 1, as_mux(draining)))
    callers.add(Caller("node-c", 1, as_mux(other)))
    callers.add(Caller("node-b", 1, as_mux(FakeMux())))
    assert draining.closes == other.closes == []


def test_only_so_many_sessions_of_a_node_drain() -> None:
    callers, muxes = Callers(), [FakeMux(draining=True) for _ in range(DRAINING_SESSIONS + 2)]
    for mux in [*muxes, FakeMux()]:
        callers.add(Caller("node-b", 1, as_mux(mux)))
    assert [mux.closed for mux in muxes] == [True] * 2 + [False] * DRAINING_SESSIONS


def test_ended_session_is_forgotten() -> None:
    callers, first, second = Callers(), FakeMux(), FakeMux()
    callers.add(Caller("node-b", 1, as_mux(first)))
    callers.add(Caller("node-c", 1, as_mux(second)))
    callers.remove(as_mux(first))
    assert [caller.node_id for caller in callers] == ["node-c"]
    assert len(callers) == 1
