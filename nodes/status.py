"""Is this node alive, and can it serve? Facts + now -> status with its reason; pure (F23, design.md section 4).

First match wins: the administrator's decision, then the heartbeat, then the leases. `selectors.status_case` is the
one SQL twin; a test runs every combination through both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.utils.translation import gettext as _

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
        return NodeStatus(Status.DELETED, _("an administrator deleted it"))
    if not facts.enabled:
        return NodeStatus(Status.DISABLED, _("an administrator disabled it"))
    if facts.expires_at is None:
        return NodeStatus(Status.PENDING, _("registered, no heartbeat yet"))
    if facts.expires_at > now:
        return _of_fresh(facts)
    values = {"moment": facts.expires_at.isoformat(timespec="seconds"), "seconds": GRACE_SECONDS}
    if facts.open_leases and facts.expires_at > now - GRACE:
        return NodeStatus(Status.STALE, _("no heartbeat since %(moment)s, within the grace of %(seconds)d s") % values)
    return NodeStatus(Status.OFFLINE, _("no heartbeat since %(moment)s") % values)


def _of_fresh(facts: StatusFacts) -> NodeStatus:
    if facts.draining:
        return NodeStatus(Status.DRAINING, _("it finishes its streams and takes no new ones"))
    if facts.unreachable:
        return NodeStatus(Status.DEGRADED, _("alive, but a peer cannot reach it"))
    if facts.health is not None and facts.health < DEGRADED_BELOW:
        text = _("alive, but the health of an agent connection is %(health)d") % {"health": facts.health}
        return NodeStatus(Status.DEGRADED, text)
    return NodeStatus(Status.ONLINE, _("heartbeat fresh"))
