"""relay.router: local first, then the least loaded lease elsewhere, never in a circle (design.md section 3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relay.router import LeaseInfo, Local, LocalSession, NoAgent, Peer, route


def lease(node_id: str, *, streams: int = 0, generation: int = 1, epoch: int = 1) -> LeaseInfo:
    return LeaseInfo("agent", f"c-{node_id}-{generation}", node_id, epoch, generation, f"{node_id}.example:1", streams)


def peer(node_id: str, epoch: int = 1) -> Peer:
    return Peer(node_id, f"{node_id}.example:1", epoch)


def test_a_local_session_comes_before_any_lease() -> None:
    local = [LocalSession("k", 1, 900)]
    assert route("agent", local=local, leases=[lease("b", generation=9)], me="a") == Local("k")


def test_of_local_sessions_the_one_with_the_fewest_streams_then_the_newest() -> None:
    sessions = [LocalSession("busy", 9, 3), LocalSession("old", 1, 2), LocalSession("new", 2, 2)]
    assert route("agent", local=sessions, leases=[], me="a") == Local("new")


def test_of_leases_the_one_with_the_fewest_streams_then_the_newest() -> None:
    leases = [lease("b", streams=3, generation=9), lease("c", streams=2), lease("d", streams=2, generation=2)]
    assert route("agent", local=[], leases=leases, me="a") == peer("d")


def test_its_own_lease_is_not_followed() -> None:
    """What this node holds shows in `local`; a lease without a session is on its way out."""
    assert route("agent", local=[], leases=[lease("a"), lease("b", streams=5)], me="a") == peer("b")
    answer = route("agent", local=[], leases=[lease("a")], me="a")
    assert answer == NoAgent("agent agent holds no live connection to any node")


def test_what_was_tried_is_passed_over() -> None:
    local, leases = [LocalSession("k", 1, 0)], [lease("b"), lease("c", streams=1)]
    tried: list[Local | Peer] = []
    for expected in (Local("k"), peer("b"), peer("c")):
        answer = route("agent", local=local, leases=leases, me="a", tried=tried)
        assert answer == expected
        tried.append(expected)
    answer = route("agent", local=local, leases=leases, me="a", tried=tried)
    assert answer == NoAgent("agent agent could not be reached in any of 3 ways")


def test_a_new_process_of_a_tried_node_is_another_way() -> None:
    answer = route("agent", local=[], leases=[lease("b", epoch=2)], me="a", tried=[peer("b", epoch=1)])
    assert answer == peer("b", epoch=2)


sessions = st.builds(LocalSession, st.text("xyz", min_size=1), st.integers(1, 5), st.integers(0, 3))
leases_ = st.builds(lease, st.sampled_from("abcd"), streams=st.integers(0, 3), generation=st.integers(1, 9))


@given(st.lists(sessions), st.lists(leases_))
def test_trying_ends_and_visits_every_way_once(local: list[LocalSession], leases: list[LeaseInfo]) -> None:
    tried: list[Local | Peer] = []
    while not isinstance(answer := route("agent", local=local, leases=leases, me="a", tried=tried), NoAgent):
        assert answer not in tried
        tried.append(answer)
    ways = {Local(s.key) for s in local} | {Peer(le.node_id, le.address, 1) for le in leases if le.node_id != "a"}
    assert set(tried) == ways
    is_local = [isinstance(way, Local) for way in tried]
    assert is_local == sorted(is_local, reverse=True)
