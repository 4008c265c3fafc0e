"""The clock that tests move, and that the real one has the same face."""

from datetime import UTC, datetime, timedelta

from tunnelmesh.common.clock import Clock, ManualClock, SystemClock


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC), monotonic=5.0)
    assert (clock.monotonic(), clock.now()) == (5.0, datetime(2026, 5, 1, tzinfo=UTC))
    clock.advance(1.5)
    assert (clock.monotonic(), clock.now()) == (6.5, datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=1.5))
    clock.jump(-3600)
    assert (clock.monotonic(), clock.now().hour) == (6.5, 23)


def test_the_system_clock_is_aware_and_monotonic() -> None:
    clock: Clock = SystemClock()
    first = clock.monotonic()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() >= first
