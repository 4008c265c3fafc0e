"""The only caller of the machine's clocks in the product; everything else takes time as an argument."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Local time for timers and log lines. Leases and expiries use the database's clock instead (P15)."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""

    def now(self) -> datetime:
        """The wall clock, UTC and aware; may jump."""


class SystemClock:
    """The machine's own clocks."""

    # Asked once or twice for every frame: no Python call of its own.
    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is moved; ``jump`` moves the wall clock alone, as NTP would."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC), *, monotonic: float = 1000.0) -> None:
        self._now = now
        self._monotonic = monotonic

    def monotonic(self) -> float:
        return self._monotonic

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._monotonic += seconds
        self._now += timedelta(seconds=seconds)

    def jump(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def sleep(seconds: float) -> None:
    """Block this thread: for commands that wait for another process, never in an event loop."""
    time.sleep(seconds)
