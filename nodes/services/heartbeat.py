"""The heartbeat: "this process is alive, and so loaded", on rows that nobody else writes (F21)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction

from nodes.facts import EXPIRY_SECONDS, HeartbeatResult, LeaseLoad, Standing
from nodes.models import Heartbeat, ServerNode
from nodes.services.leases import lease_loads_write
from tunnelmesh.common.errors import NotFound
from tunnelmesh.db.clock import database_now


@transaction.atomic
def node_heartbeat(
    node_id: str,
    *,
    epoch: int,
    loads: Sequence[LeaseLoad] = (),
    unreachable_peers: Sequence[str] = (),
    draining: bool = False,
) -> HeartbeatResult:
    """Move the node's expiry and write the loads that changed, if `epoch` is still the newest.

    A beat under an older epoch changes nothing and hears `fenced`. A disabled or deleted node's beat counts, and it
    hears so (R12). Raises `NotFound` for a node that never registered.
    """
    now = database_now()
    expires_at = now + timedelta(seconds=EXPIRY_SECONDS)
    counted = Heartbeat.objects.filter(server_node_id=node_id, epoch=epoch).update(
        last_seen_at=now,
        expires_at=expires_at,
        draining=draining,
        unreachable_peers=json.dumps(sorted(set(unreachable_peers))),
    )
    node = ServerNode.objects.filter(id=node_id).first()
    if node is None:
        raise NotFound("unknown_node", f"no record of node {node_id}", hint="register it: start its Server again")
    if not counted:
        return HeartbeatResult(Standing.FENCED, node.epoch, now, None)
    lease_loads_write(node_id, epoch=epoch, loads=loads, now=now)
    return HeartbeatResult(_standing(node), node.epoch, now, expires_at)


def _standing(node: ServerNode) -> Standing:
    if node.deleted_at is not None:
        return Standing.DELETED
    return Standing.OK if node.enabled else Standing.DISABLED
