"""Leases of agent connections: opened, loaded and closed so that the newest generation always wins (P8, R3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Case, F, IntegerField, Max, QuerySet, When

from nodes.facts import Lease, LeaseLoad
from nodes.models import AgentConnection, Heartbeat
from tunnelmesh.common.errors import Conflict, Refused
from tunnelmesh.db.clock import database_now

BATCH = 100
OPEN_ATTEMPTS = 10


def lease_open(node_id: str, *, epoch: int, agent_id: str, connection_id: str) -> Lease:
    """Record a new connection of the agent under the next generation; its older ones on this node are superseded.

    Raises Conflict `stale_epoch` when a newer process of the node has registered, Refused `node_disabled` when the
    node may serve nobody. Two nodes that open for one agent at once draw the same number: one of them draws again.
    """
    for _ in range(OPEN_ATTEMPTS - 1):
        try:
            return _open(node_id, epoch, agent_id, connection_id)
        except IntegrityError:
            continue
    return _open(node_id, epoch, agent_id, connection_id)


@transaction.atomic
def lease_close(connection_id: str, *, generation: int, reason: str) -> bool:
    """Close that one connection; False when it was closed before, and nothing changes then."""
    rows = AgentConnection.objects.filter(connection_id=connection_id, generation=generation)
    return _close(rows, reason, database_now()) > 0


@transaction.atomic
def node_leases_close(node_id: str, *, epoch: int, reason: str) -> int:
    """Close what this process of the node still holds; gives the number of leases."""
    rows = AgentConnection.objects.filter(server_node_id=node_id, node_epoch=epoch)
    return _close(rows, reason, database_now())


def older_leases_close(node_id: str, *, epoch: int, now: datetime) -> int:
    """Close what the processes before `epoch` left open; they are fenced. In the registration's transaction."""
    rows = AgentConnection.objects.filter(server_node_id=node_id, node_epoch__lt=epoch)
    return _close(rows, "fenced", now)


def lease_loads_write(node_id: str, *, epoch: int, loads: Sequence[LeaseLoad], now: datetime) -> int:
    """Write loads in batches of one statement; those of closed or other leases change nothing."""
    written = 0
    for start in range(0, len(loads), BATCH):
        batch = loads[start : start + BATCH]
        rows = AgentConnection.objects.filter(
            connection_id__in=[load.connection_id for load in batch],
            server_node_id=node_id,
            node_epoch=epoch,
            closed_at__isnull=True,
        )
        streams = (_when(load, load.active_streams) for load in batch)
        health = (_when(load, load.health_score) for load in batch)
        written += rows.update(
            active_streams=Case(*streams, default=F("active_streams"), output_field=IntegerField()),
            health_score=Case(*health, default=F("health_score"), output_field=IntegerField()),
            updated_at=now,
        )
    return written


@transaction.atomic
def _open(node_id: str, epoch: int, agent_id: str, connection_id: str) -> Lease:
    now = database_now()
    _check_may_hold(node_id, epoch)
    theirs = AgentConnection.objects.filter(agent_id=agent_id)
    generation = (theirs.aggregate(newest=Max("generation"))["newest"] or 0) + 1
    _close(theirs.filter(server_node_id=node_id), "superseded", now)
    AgentConnection.objects.create(
        agent_id=agent_id,
        connection_id=connection_id,
        server_node_id=node_id,
        node_epoch=epoch,
        generation=generation,
        opened_at=now,
        updated_at=now,
    )
    return Lease(connection_id, generation)


def _check_may_hold(node_id: str, epoch: int) -> None:
    """The heartbeat row is the fence: registration writes it, so the lock keeps a newer epoch out until the commit."""
    beat = Heartbeat.objects.select_for_update().filter(server_node_id=node_id, epoch=epoch).first()
    if beat is None:
        raise Conflict(
            "stale_epoch",
            f"epoch {epoch} of node {node_id} is not the newest",
            hint="a newer process with this node id has started; stop this one",
        )
    node = beat.server_node
    if not node.enabled or node.deleted_at is not None:
        raise Refused("node_disabled", f"node {node_id} is disabled or deleted", hint="an administrator may enable it")


def _close(rows: QuerySet[AgentConnection], reason: str, now: datetime) -> int:
    return rows.filter(closed_at__isnull=True).update(closed_at=now, close_reason=reason, updated_at=now)


def _when(load: LeaseLoad, value: int) -> When:
    return When(connection_id=load.connection_id, generation=load.generation, then=value)
