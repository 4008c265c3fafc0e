"""A Server's start: its record exists afterwards, under a new epoch (F20)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from nodes.facts import Registration
from nodes.models import Heartbeat, ServerNode
from nodes.services.authorisation import authorisation_touch
from nodes.services.leases import older_leases_close
from tunnelmesh.audit import services as audit
from tunnelmesh.common.ids import check_node_id
from tunnelmesh.db.clock import database_now


@transaction.atomic
def node_register(
    node_id: str,
    *,
    address: str,
    version: str,
    certificate_not_after: datetime | None,
    certificate_fingerprint: str,
) -> Registration:
    """Take a new epoch for this process of the node and write what the process says of itself.

    Creates the record on the first start only; never enables, restores or renames one. From the commit on, everything
    under an older epoch is fenced. Raises `Invalid` for what is no node id.
    """
    now = database_now()
    own: dict[str, Any] = {
        "address": address,
        "version": version,
        "certificate_not_after": certificate_not_after,
        "certificate_fingerprint": certificate_fingerprint,
    }
    records = ServerNode.objects.filter(id=check_node_id(node_id))
    if not records.update(epoch=F("epoch") + 1, **own) and not _created(node_id, own, now):
        records.update(epoch=F("epoch") + 1, **own)
    node = records.get()
    beats = Heartbeat.objects.filter(server_node_id=node_id)
    if not beats.update(epoch=node.epoch, expires_at=None, draining=False, unreachable_peers="[]"):
        Heartbeat.objects.create(server_node_id=node_id, epoch=node.epoch)
    older_leases_close(node_id, epoch=node.epoch, now=now)
    authorisation_touch()
    audit.record(
        "node.registered",
        actor=f"server_node:{node_id}",
        target=f"server_node:{node_id}",
        before={"epoch": node.epoch - 1},
        after={"epoch": node.epoch, **own},
    )
    return Registration(node_id, node.epoch, node.enabled, node.deleted_at is not None)


def _created(node_id: str, own: dict[str, Any], now: datetime) -> bool:
    """False when another process of that new id was faster."""
    try:
        with transaction.atomic():
            ServerNode.objects.create(id=node_id, name=node_id, epoch=1, created_at=now, updated_at=now, **own)
    except IntegrityError:
        return False
    return True
