"""New, used and skipped stream ids."""

import pytest

from relay.protocol.errors import RemoteError
from relay.protocol.limits import MAX_STREAM_ID
from relay.protocol.stream_ids import REORDER, StreamIds


@pytest.mark.parametrize(("client", "first", "peers"), [(True, 1, 2), (False, 2, 1)])
def test_parities(client: bool, first: int, peers: int) -> None:
    ids = StreamIds(client=client)
    assert [ids.take(), ids.take()] == [first, first + 2]
    ids.judge_new(peers)
    with pytest.raises(RemoteError, match="our parity"):
        ids.judge_new(first)
    for unknown in (first, peers):
        with pytest.raises(RemoteError, match="never opened"):
            ids.judge_used(unknown)


def test_announcing_names_the_earlier_ones() -> None:
    ids = StreamIds(client=True)
    for _ in range(4):
        ids.take()
    assert list(ids.announce(1)) == []
    assert list(ids.announce(7)) == [3, 5]
    ids.judge_used(7)


def test_an_id_is_new_once() -> None:
    ids = StreamIds(client=True)
    for number in (2, 4):
        ids.judge_new(number)
        ids.use(number)
        ids.judge_used(number)
        with pytest.raises(RemoteError, match="again"):
            ids.judge_new(number)


def test_syns_may_overtake_each_other() -> None:
    """hashicorp/yamux: two goroutines open at once, and the second one's SYN leaves first."""
    ids = StreamIds(client=True)
    for number in (6, 2, 8, 4):
        ids.judge_new(number)
        ids.use(number)
    for number in (2, 4, 6, 8):
        with pytest.raises(RemoteError, match="again"):
            ids.judge_new(number)


def test_what_was_skipped_long_ago_is_used_up() -> None:
    ids = StreamIds(client=True)
    far = 10_000
    ids.use(far)
    ids.judge_new(far - 2 * REORDER)
    with pytest.raises(RemoteError, match="again"):
        ids.judge_new(far - 2 * REORDER - 2)


def test_memory_is_bounded_whatever_is_skipped() -> None:
    ids = StreamIds(client=False)
    for number in (*range(1, 100_001, 1000), *range(100_001, 200_001, 4), MAX_STREAM_ID):
        ids.use(number)
        assert len(ids._peer_skipped) <= REORDER
    assert not ids.exhausted


def test_ours_run_out() -> None:
    ids = StreamIds(client=True, first=MAX_STREAM_ID)
    assert not ids.exhausted
    assert ids.take() == MAX_STREAM_ID
    assert ids.exhausted
