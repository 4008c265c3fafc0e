"""nodes.services.heartbeat: its own row, its own epoch, the database's clock (F21, R11, R12, R16)."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from nodes.facts import EXPIRY_SECONDS, LeaseLoad, Standing
from nodes.models import AgentConnection, Heartbeat, ServerNode
from nodes.selectors import authorisation_revision
from nodes.services.heartbeat import node_heartbeat
from nodes.services.leases import lease_close, lease_open
from tests.support.fleet import disable, live_node, register
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.errors import NotFound
from tunnelmesh.db.clock import database_now

pytestmark = pytest.mark.django_db


def test_a_beat_moves_last_seen_and_expiry_by_the_databases_clock() -> None:
    epoch = register("server-a").epoch
    before = database_now()
    result = node_heartbeat("server-a", epoch=epoch)
    after = database_now()

    beat = Heartbeat.objects.get()
    assert before <= result.now <= after
    assert (result.standing, result.newest_epoch, result.expires_at) == (Standing.OK, 1, beat.expires_at)
    assert beat.last_seen_at == result.now
    assert beat.expires_at == result.now + timedelta(seconds=EXPIRY_SECONDS)


def test_a_beat_writes_no_other_table() -> None:
    epoch = register("server-a").epoch
    node = ServerNode.objects.values().get()
    events, revision = AuditEvent.objects.count(), authorisation_revision()
    node_heartbeat("server-a", epoch=epoch)
    assert ServerNode.objects.values().get() == node
    assert (AuditEvent.objects.count(), authorisation_revision()) == (events, revision)


def test_a_disable_between_two_beats_stands() -> None:
    epoch = live_node("server-a").epoch
    disable("server-a")
    seen = Heartbeat.objects.get().last_seen_at
    Heartbeat.objects.update(last_seen_at=None)

    assert node_heartbeat("server-a", epoch=epoch).standing is Standing.DISABLED
    assert not ServerNode.objects.get().enabled
    assert Heartbeat.objects.get().last_seen_at >= seen


def test_a_deleted_node_beats_and_hears_so() -> None:
    epoch = live_node("server-a").epoch
    ServerNode.objects.get().delete()
    assert node_heartbeat("server-a", epoch=epoch).standing is Standing.DELETED


def test_an_older_epoch_is_fenced_and_changes_nothing() -> None:
    old = live_node("server-a").epoch
    lease_open("server-a", epoch=old, agent_id="agent", connection_id="c1")
    newest = register("server-a").epoch
    rows = Heartbeat.objects.values().get(), AgentConnection.objects.values().get()

    result = node_heartbeat("server-a", epoch=old, loads=[LeaseLoad("c1", 1, 99, 1)], unreachable_peers=["x"])

    assert (result.standing, result.newest_epoch, result.expires_at) == (Standing.FENCED, newest, None)
    assert (Heartbeat.objects.values().get(), AgentConnection.objects.values().get()) == rows


def test_an_epoch_that_was_never_given_is_fenced_too() -> None:
    live_node("server-a")
    assert node_heartbeat("server-a", epoch=7).standing is Standing.FENCED


def test_unknown_node() -> None:
    with pytest.raises(NotFound):
        node_heartbeat("server-a", epoch=1)


def test_peers_and_drain_are_stored() -> None:
    epoch = register("server-a").epoch
    node_heartbeat("server-a", epoch=epoch, unreachable_peers=["server-c", "server-b", "server-c"], draining=True)
    beat = Heartbeat.objects.get()
    assert (json.loads(beat.unreachable_peers), beat.draining) == (["server-b", "server-c"], True)


def test_loads_are_written_in_one_statement_a_hundred(django_assert_num_queries: object) -> None:
    epoch = live_node("server-a").epoch
    leases = [lease_open("server-a", epoch=epoch, agent_id=f"agent-{n}", connection_id=f"c{n}") for n in range(150)]
    loads = [LeaseLoad(lease.connection_id, lease.generation, n, 100 - n % 3) for n, lease in enumerate(leases)]

    with django_assert_num_queries(1 + 1 + 1 + 1 + 2 + 1):  # begin, clock, beat, node, two batches, commit
        node_heartbeat("server-a", epoch=epoch, loads=loads)

    stored = {row.connection_id: (row.active_streams, row.health_score) for row in AgentConnection.objects.all()}
    assert stored == {load.connection_id: (load.active_streams, load.health_score) for load in loads}


def test_loads_of_closed_or_foreign_leases_change_nothing() -> None:
    epoch = live_node("server-a").epoch
    other = live_node("server-b").epoch
    closed = lease_open("server-a", epoch=epoch, agent_id="agent-1", connection_id="closed")
    lease_close("closed", generation=closed.generation, reason="end")
    lease_open("server-b", epoch=other, agent_id="agent-2", connection_id="foreign")
    lease_open("server-a", epoch=epoch, agent_id="agent-3", connection_id="open")

    loads = [LeaseLoad("closed", 1, 9, 9), LeaseLoad("foreign", 1, 9, 9), LeaseLoad("open", 2, 9, 9)]
    node_heartbeat("server-a", epoch=epoch, loads=loads)

    assert set(AgentConnection.objects.values_list("active_streams", "health_score")) == {(0, 100)}
