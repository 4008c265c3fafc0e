"""Which streams are given up (R5, design.md 3.1, ADR 8)."""

from dataclasses import dataclass, field

from relay.net.patience import HALF_CLOSED_IDLE, QUEUE_BUDGET, QUEUE_FREE, QUEUE_STALL, hopeless

MIB = 1024 * 1024


@dataclass
class FakeStream:
    may_send: bool = True
    may_receive: bool = True


@dataclass(eq=False)
class FakeChannel:
    queued: int = 0
    moved_at: float = 0.0
    queue_moved_at: float = 0.0
    stream: FakeStream = field(default_factory=FakeStream)


def given_up(*channels: FakeChannel, now: float) -> list[FakeChannel]:
    return hopeless(channels, now)  # type: ignore[arg-type, return-value]


class TestHalfClosed:
    def test_idle_for_too_long(self) -> None:
        for stream in (FakeStream(may_send=False), FakeStream(may_receive=False)):
            channel = FakeChannel(stream=stream, moved_at=100.0)
            assert given_up(channel, now=100.0 + HALF_CLOSED_IDLE) == []
            assert given_up(channel, now=100.1 + HALF_CLOSED_IDLE) == [channel]

    def test_open_both_ways_a_stream_may_idle_for_ever(self) -> None:
        assert given_up(FakeChannel(), now=10**9) == []


class TestQueues:
    def test_below_the_budget_nobody(self) -> None:
        channels = [FakeChannel(queued=QUEUE_FREE + QUEUE_BUDGET // 4) for _ in range(4)]
        assert given_up(*channels, now=10**6) == []

    def test_the_longest_stalled_ones_until_the_rest_is_within_the_budget(self) -> None:
        channels = [FakeChannel(queued=2 * MIB + QUEUE_FREE, queue_moved_at=float(at)) for at in (3, 1, 2)]
        assert given_up(*channels, now=1000.0) == [channels[1]]
        channels += [FakeChannel(queued=2 * MIB + QUEUE_FREE, queue_moved_at=4.0)]
        assert given_up(*channels, now=1000.0) == [channels[1], channels[2]]

    def test_a_slow_reader_is_not_a_dead_one(self) -> None:
        slow = [FakeChannel(queued=MIB, queue_moved_at=1000.0 - QUEUE_STALL) for _ in range(100)]
        assert given_up(*slow, now=1000.0) == []

    def test_that_bytes_come_is_no_sign_of_life(self) -> None:
        """A peer that sends now and then and never reads: what counts is that its queue moves."""
        talking = [FakeChannel(queued=MIB, moved_at=1000.0) for _ in range(8)]
        assert len(given_up(*talking, now=1000.0)) == 4

    def test_what_is_small_is_free(self) -> None:
        assert given_up(*[FakeChannel(queued=QUEUE_FREE) for _ in range(1024)], now=10**6) == []
