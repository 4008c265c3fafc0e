"""nodes.status: the table of design.md section 4, every combination of facts (R12)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from nodes.status import GRACE, Status, StatusFacts, derive_status

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
TICK = timedelta(microseconds=1)
NEVER, FRESH, JUST_EXPIRED, END_OF_GRACE, LONG_AGO = (
    None,
    NOW + TICK,
    NOW,
    NOW - GRACE,
    NOW - timedelta(days=300),
)


def expected(facts: StatusFacts) -> Status:
    """The rule once more, as sets instead of as a cascade."""
    if facts.deleted:
        return Status.DELETED
    if not facts.enabled:
        return Status.DISABLED
    if facts.expires_at is NEVER:
        return Status.PENDING
    if facts.expires_at == FRESH:
        degraded = facts.unreachable or facts.health == 49
        return Status.DRAINING if facts.draining else Status.DEGRADED if degraded else Status.ONLINE
    return Status.STALE if facts.expires_at == JUST_EXPIRED and facts.open_leases else Status.OFFLINE


@pytest.mark.parametrize("expires_at", [NEVER, FRESH, JUST_EXPIRED, END_OF_GRACE, LONG_AGO])
def test_every_combination(expires_at: datetime | None) -> None:
    for deleted, enabled, draining, unreachable in product((False, True), repeat=4):
        for leases, health in ((0, None), (1, 50), (3, 49)):
            facts = StatusFacts(
                deleted=deleted,
                enabled=enabled,
                expires_at=expires_at,
                draining=draining,
                unreachable=unreachable,
                open_leases=leases,
                health=health,
            )
            verdict = derive_status(facts, NOW)
            assert verdict.status == expected(facts), facts
            assert verdict.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "heartbeat fresh"),
        ({"deleted": True, "enabled": False}, "an administrator deleted it"),
        ({"enabled": False}, "an administrator disabled it"),
        ({"expires_at": NEVER}, "registered, no heartbeat yet"),
        ({"draining": True}, "it finishes its streams and takes no new ones"),
        ({"unreachable": True}, "alive, but a peer cannot reach it"),
        ({"health": 7}, "alive, but the health of an agent connection is 7"),
        (
            {"expires_at": NOW, "open_leases": 1},
            "no heartbeat since 2026-06-01T12:00:00+00:00, within the grace of 60 s",
        ),
        ({"expires_at": NOW}, "no heartbeat since 2026-06-01T12:00:00+00:00"),
    ],
)
def test_reasons(changes: dict[str, object], reason: str) -> None:
    good = {
        "deleted": False,
        "enabled": True,
        "expires_at": FRESH,
        "draining": False,
        "unreachable": False,
        "open_leases": 0,
        "health": None,
    }
    assert derive_status(StatusFacts(**(good | changes)), NOW).reason == reason
