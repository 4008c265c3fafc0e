"""Is this node alive, and can it serve? Facts + now -> status with its reason; pure (F23, design.md section 4).

First match wins: the administrator's decision, then the heartbeat, then the leases. `selectors.status_case` is the
one SQL twin; a test runs every combination through both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from nodes.facts import GRACE_SECONDS

GRACE = timedelta(seconds=GRACE_SECONDS)
DEGRADED_BELOW = 50
"""A health score under half says that the agents behind the node can hardly use it."""


class Status(StrEnum):
    DELETED = "deleted"
    DISABLED = "disabled"
    PENDING = "pending"
    DRAINING = "draining"
    DEGRADED = "degraded"
    ONLINE = "online"
    STALE = "stale"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """`expires_at` is None until the first heartbeat of the present epoch; `open_leases` are of that epoch;
    `unreachable` says that a live peer cannot reach this node; `health` is the minimum over its live leases."""

    deleted: bool
    enabled: bool
    expires_at: datetime | None
    draining: bool
    unreachable: bool
    open_leases: int
    health: int | None


@dataclass(frozen=True, slots=True)
class NodeStatus:
    status: Status
    reason: str


def derive_status(facts: StatusFacts, now: datetime) -> NodeStatus:
    """The status of a node at `now` (the database's clock); an expiry equal to now has passed."""
    if facts.deleted:
        return NodeStatus(Status.DELETED, "an administrator deleted it")
    if not facts.enabled:
        return NodeStatus(Status.DISABLED, "an administrator disabled it")
    if facts.expires_at is None:
        return NodeStatus(Status.PENDING, "registered, no heartbeat yet")
    if facts.expires_at > now:
        return _of_fresh(facts)
    since = f"no heartbeat since {facts.expires_at.isoformat(timespec='seconds')}"
    if facts.open_leases and facts.expires_at > now - GRACE:
        return NodeStatus(Status.STALE, f"{since}, within the grace of {GRACE_SECONDS} s")
    return NodeStatus(Status.OFFLINE, since)


def _of_fresh(facts: StatusFacts) -> NodeStatus:
    if facts.draining:
        return NodeStatus(Status.DRAINING, "it finishes its streams and takes no new ones")
    if facts.unreachable:
        return NodeStatus(Status.DEGRADED, "alive, but a peer cannot reach it")
    if facts.health is not None and facts.health < DEGRADED_BELOW:
        return NodeStatus(Status.DEGRADED, f"alive, but the health of an agent connection is {facts.health}")
    return NodeStatus(Status.ONLINE, "heartbeat fresh")
