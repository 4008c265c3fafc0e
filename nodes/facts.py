"""What the services of `nodes` take and give: frozen facts without ORM types, for daemons and pure decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

HEARTBEAT_SECONDS = 15
EXPIRY_SECONDS = 60
GRACE_SECONDS = 60


class Standing(StrEnum):
    """What a node learns of itself from its heartbeat; `fenced`: a newer process took a higher epoch."""

    OK = "ok"
    FENCED = "fenced"
    DISABLED = "disabled"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Registration:
    """A node's record after a start: the epoch is this process's own (F20)."""

    node_id: str
    epoch: int
    enabled: bool
    deleted: bool


@dataclass(frozen=True, slots=True)
class LeaseLoad:
    """The load of one agent connection; `health_score` is 0-100."""

    connection_id: str
    generation: int
    active_streams: int
    health_score: int


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """`now` is the database's clock; `expires_at` is None when the heartbeat was fenced and so did not count."""

    standing: Standing
    newest_epoch: int
    now: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Lease:
    connection_id: str
    generation: int
