"""The inventory with counts and health, and the live leases of an agent; every query takes the database's `now`."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime

from django.db.models import Case, Count, F, Min, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce

from nodes.models import AgentConnection, AuthorisationRevision, Heartbeat, ServerNode
from nodes.status import DEGRADED_BELOW, GRACE, Status

_OPEN = Q(connections__closed_at__isnull=True, connections__node_epoch=F("epoch"))


def node_inventory(now: datetime) -> QuerySet[ServerNode]:
    """Every node, deleted ones too, with status, open_leases, active_connections, active_streams and health.

    `active_*` and `health` count live leases only (F22, F24). Two queries, whatever the size of the fleet.
    """
    live = _OPEN & _live_record(now)
    return (
        ServerNode.objects.select_related("heartbeat")
        .annotate(
            open_leases=Count("connections", filter=_OPEN),
            active_connections=Count("connections", filter=live),
            active_streams=Coalesce(Sum("connections__active_streams", filter=live), 0),
            health=Min("connections__health_score", filter=live),
        )
        .annotate(status=status_case(now, unreachable_nodes(now)))
        .order_by("id")
    )


def status_case(now: datetime, unreachable: Collection[str]) -> Case:
    """The SQL twin of `status.derive_status`, over the columns that `node_inventory` has annotated."""
    fresh = Q(heartbeat__expires_at__gt=now)
    in_grace = Q(heartbeat__expires_at__gt=now - GRACE, open_leases__gt=0)
    table: list[tuple[Q, Status]] = [
        (Q(deleted_at__isnull=False), Status.DELETED),
        (Q(enabled=False), Status.DISABLED),
        (Q(heartbeat__expires_at__isnull=True), Status.PENDING),
        (fresh & Q(heartbeat__draining=True), Status.DRAINING),
        (fresh & (Q(id__in=unreachable) | Q(health__lt=DEGRADED_BELOW)), Status.DEGRADED),
        (fresh, Status.ONLINE),
        (in_grace, Status.STALE),
    ]
    return Case(
        *(When(condition, then=Value(status.value)) for condition, status in table), default=Value(Status.OFFLINE.value)
    )


def unreachable_nodes(now: datetime) -> frozenset[str]:
    """Nodes that a node with a fresh heartbeat cannot reach."""
    reports = Heartbeat.objects.filter(expires_at__gt=now).exclude(unreachable_peers="[]")
    return frozenset(
        node_id for text in reports.values_list("unreachable_peers", flat=True) for node_id in json.loads(text)
    )


def live_leases(agent_id: str, now: datetime) -> QuerySet[AgentConnection]:
    """The agent's leases that are open and whose node's record is live at the same epoch, with that record."""
    return AgentConnection.objects.select_related("server_node").filter(
        agent_id=agent_id,
        closed_at__isnull=True,
        node_epoch=F("server_node__epoch"),
        server_node__enabled=True,
        server_node__deleted_at__isnull=True,
        server_node__heartbeat__epoch=F("node_epoch"),
        server_node__heartbeat__expires_at__gt=now,
    )


def authorisation_revision() -> int:
    """The counter that moves with every change of who may do what; 0 before the first."""
    return AuthorisationRevision.objects.filter(id=1).values_list("value", flat=True).first() or 0


def _live_record(now: datetime) -> Q:
    return Q(enabled=True, deleted_at__isnull=True, heartbeat__expires_at__gt=now)
