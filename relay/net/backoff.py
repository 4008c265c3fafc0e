"""How long to wait before the next attempt: full jitter with a cap, and a slow lane for refusals that do not pass by
themselves (faults.md, R4). Pure: randomness is an argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Seconds. `attempts` counts failures since the last `reset`."""

    base: float = 1.0
    cap: float = 60.0
    slow_from: float = 60.0
    slow_to: float = 300.0
    attempts: int = 0

    def delay(self, random: float, *, permanent: bool = False) -> float:
        """The next delay, for a `random` of 0 to 1: anywhere from 0 to base x 2^attempts, at most `cap`; after a
        permanent refusal from `slow_from` to `slow_to`."""
        if permanent:
            return self.slow_from + random * (self.slow_to - self.slow_from)
        ceiling = min(self.cap, self.base * 2.0 ** min(self.attempts, 32))
        self.attempts += 1
        return random * ceiling

    def reset(self) -> None:
        """A session was good: begin at `base` again."""
        self.attempts = 0
