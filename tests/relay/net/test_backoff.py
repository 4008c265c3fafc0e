"""R4: agents do not return in the same second, and permanent refusals are retried slowly."""

import random
from collections import Counter

from relay.net.backoff import Backoff

AGENTS = 1000


def attempts(backoff: Backoff, jitter: random.Random, until: float, *, permanent: bool = False) -> list[float]:
    """When an agent that is cut at 0 and always fails dials, up to a time."""
    now, dials = 0.0, []
    while (now := now + backoff.delay(jitter.random(), permanent=permanent)) <= until:
        dials.append(now)
    return dials


def test_no_second_holds_more_than_a_tenth_of_the_attempts_of_an_outage() -> None:
    jitter = random.Random(4)
    seconds = Counter(int(at) for _ in range(AGENTS) for at in attempts(Backoff(), jitter, 600.0))
    assert max(seconds.values()) <= seconds.total() / 10


def test_no_second_holds_more_than_a_tenth_of_the_returns_after_a_minute() -> None:
    """The node is back at 60 s: when does each agent dial first?"""
    jitter = random.Random(4)
    returns = Counter(int(next(at for at in attempts(Backoff(), jitter, 200.0) if at >= 60.0)) for _ in range(AGENTS))
    assert max(returns.values()) <= AGENTS / 10


def test_a_revoked_agent_dials_at_most_fifteen_times_in_ten_minutes() -> None:
    class Hasty(random.Random):
        def random(self) -> float:
            return 0.0

    assert len(attempts(Backoff(), Hasty(), 600.0, permanent=True)) <= 15


def test_the_ceiling_doubles_up_to_the_cap_and_is_reset() -> None:
    backoff = Backoff(base=1.0, cap=60.0)
    assert [backoff.delay(1.0) for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    backoff.attempts = 10**6
    assert backoff.delay(1.0) == 60.0
    backoff.reset()
    assert backoff.delay(1.0) == 1.0
    assert backoff.delay(0.0) == 0.0


def test_a_permanent_refusal_waits_in_the_slow_lane_and_counts_for_nothing() -> None:
    backoff = Backoff(slow_from=60.0, slow_to=300.0)
    assert [backoff.delay(jitter, permanent=True) for jitter in (0.0, 0.5, 1.0)] == [60.0, 180.0, 300.0]
    assert backoff.delay(1.0) == 1.0
