"""nodes.selectors: one inventory with status, counts and health; its SQL status equals the pure rule."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import pytest

from nodes.models import AgentConnection, Heartbeat, ServerNode
from nodes.selectors import node_inventory, unreachable_nodes
from nodes.services.heartbeat import node_heartbeat
from nodes.services.leases import lease_open
from nodes.status import StatusFacts, derive_status
from tests.support.fleet import let_expire, live_node, register
from tunnelmesh.db.clock import database_now

pytestmark = pytest.mark.django_db


def test_the_sql_status_equals_the_pure_one_in_every_combination() -> None:
    now = database_now()
    tick = timedelta(milliseconds=1)
    expiries = [None, now + tick, now, now - timedelta(seconds=60), now - timedelta(days=9)]
    nodes, beats, leases = [], [], []
    for deleted, enabled, draining, unreachable, expires_at, (count, health) in product(
        (False, True), (False, True), (False, True), (False, True), expiries, ((0, 100), (2, 50), (1, 49))
    ):
        node_id = f"node-{len(nodes)}-{'cut' if unreachable else 'seen'}"
        nodes.append(
            ServerNode(
                id=node_id, name=node_id, epoch=5, enabled=enabled, deleted_at=now if deleted else None,
                created_at=now, updated_at=now,
            )
        )  # fmt: skip
        beats.append(Heartbeat(server_node_id=node_id, epoch=5, expires_at=expires_at, draining=draining))
        leases += [_lease(node_id, len(leases) + n, now, node_epoch=5, health_score=health) for n in range(count)]
        leases.append(_lease(node_id, len(leases), now, node_epoch=4, health_score=1))  # of a fenced process
    ServerNode.objects.bulk_create(nodes)
    Heartbeat.objects.bulk_create(beats)
    AgentConnection.objects.bulk_create(leases)
    reporter = live_node("reporter").epoch
    node_heartbeat("reporter", epoch=reporter, unreachable_peers=[n.id for n in nodes if n.id.endswith("-cut")])

    seen = set()
    for node in node_inventory(now).exclude(id="reporter"):
        facts = StatusFacts(
            deleted=node.deleted_at is not None,
            enabled=node.enabled,
            expires_at=node.heartbeat.expires_at,
            draining=node.heartbeat.draining,
            unreachable=node.id.endswith("-cut"),
            open_leases=node.open_leases,
            health=node.health,
        )
        assert node.status == derive_status(facts, now).status, (node.id, facts)
        seen.add(node.status)
    assert len(seen) == 8


def _lease(node_id: str, number: int, now: datetime, **columns: int) -> AgentConnection:
    return AgentConnection(
        agent_id="agent", connection_id=f"c{number}", generation=number, server_node_id=node_id, opened_at=now,
        updated_at=now, **columns,
    )  # fmt: skip


def test_counts_are_of_live_leases_only(django_assert_num_queries: object) -> None:
    for node_id in ("server-a", "server-b"):
        epoch = live_node(node_id).epoch
        for n in range(3):
            lease_open(node_id, epoch=epoch, agent_id=f"agent-{n}", connection_id=f"{node_id}-{n}")
    AgentConnection.objects.update(active_streams=7)
    AgentConnection.objects.filter(connection_id="server-a-0").update(closed_at=database_now())
    AgentConnection.objects.filter(connection_id="server-a-1").update(health_score=80)
    let_expire("server-b")
    register("server-c")

    now = database_now()
    with django_assert_num_queries(2):
        rows = {node.id: node for node in node_inventory(now)}

    def counts(node_id: str) -> tuple[object, ...]:
        node = rows[node_id]
        return node.open_leases, node.active_connections, node.active_streams, node.health, node.status

    assert counts("server-a") == (2, 2, 14, 80, "online")
    assert counts("server-b") == (3, 0, 0, None, "stale")
    assert counts("server-c") == (0, 0, 0, None, "pending")


def test_reports_of_an_expired_node_are_not_believed() -> None:
    node_heartbeat("server-a", epoch=live_node("server-a").epoch, unreachable_peers=["server-b"])
    assert unreachable_nodes(database_now()) == {"server-b"}
    let_expire("server-a")
    assert unreachable_nodes(database_now()) == frozenset()
