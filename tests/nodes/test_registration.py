"""nodes.services.registration: a start takes an epoch and touches nothing that the administrator owns (F20, R18)."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from nodes.models import Heartbeat, ServerNode
from nodes.selectors import authorisation_revision
from nodes.services import registration
from nodes.services.heartbeat import node_heartbeat
from tests.support.fleet import FINGERPRINT, live_node, register
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.errors import Invalid
from tunnelmesh.db.clock import database_now
from tunnelmesh.db.unit import writes

pytestmark = pytest.mark.django_db


def row(node_id: str) -> dict[str, object]:
    return ServerNode.objects.values().get(id=node_id)


def test_first_start_creates_the_record() -> None:
    before = database_now()
    made = register("server-a", address="a.example:9443")

    assert (made.node_id, made.epoch, made.enabled, made.deleted) == ("server-a", 1, True, False)
    node = ServerNode.objects.get(id="server-a")
    assert (node.name, node.address, node.version) == ("server-a", "a.example:9443", "0.1")
    assert before <= node.created_at == node.updated_at <= database_now()
    assert node.certificate_fingerprint == FINGERPRINT
    beat = Heartbeat.objects.get(server_node=node)
    assert (beat.epoch, beat.last_seen_at, beat.expires_at) == (1, None, None)


def test_every_start_takes_the_next_epoch_and_moves_the_revision() -> None:
    revision = authorisation_revision()
    assert [register("server-a").epoch for _ in range(3)] == [1, 2, 3]
    assert authorisation_revision() == revision + 3


@pytest.mark.parametrize("start", [2**31 - 1, 2**31, 2**53, 2**62])
def test_epochs_above_31_bits(start: int) -> None:
    register("server-a")
    ServerNode.objects.update(epoch=start)

    assert register("server-a").epoch == start + 1
    assert node_heartbeat("server-a", epoch=start + 1).newest_epoch == start + 1


def test_a_restart_changes_only_what_the_process_owns() -> None:
    live_node("server-a")
    ServerNode.objects.filter(id="server-a").update(name="edge <1>", enabled=False)
    ServerNode.objects.filter(id="server-a").delete()
    before = row("server-a")

    again = register("server-a", address="other.example:1")

    assert (again.enabled, again.deleted) == (False, True)
    changed = {key: value for key, value in row("server-a").items() if before[key] != value}
    assert changed == {"epoch": 2, "address": "other.example:1"}


def test_a_restart_keeps_last_seen_but_is_not_a_beat() -> None:
    live_node("server-a")
    seen = Heartbeat.objects.get().last_seen_at
    register("server-a")
    beat = Heartbeat.objects.get()
    assert (beat.epoch, beat.last_seen_at, beat.expires_at) == (2, seen, None)


def test_it_is_audited() -> None:
    register("server-a")
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.target) == (
        "node.registered",
        "server_node:server-a",
        "server_node:server-a",
    )
    assert '"epoch": 1' in event.after


def test_no_record_without_its_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("no audit today")

    monkeypatch.setattr(registration.audit, "record", broken)
    with pytest.raises(RuntimeError):
        register("server-a")
    assert not ServerNode.objects.exists()


@pytest.mark.parametrize("node_id", ["", "Server-A", "server-a\n", "server-a ", "a.b", "x" * 64, "sérver"])
def test_what_is_no_node_id(node_id: str) -> None:
    with pytest.raises(Invalid):
        register(node_id)
    assert not ServerNode.objects.exists()


def test_who_loses_the_race_to_create_a_record_takes_the_next_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL alone lets two transactions get so far; here the other process is played."""
    created = registration._created
    monkeypatch.setattr(registration, "_created", lambda *record: not created(*record))
    assert register("server-a").epoch == 2


def test_a_second_record_of_one_id_is_not_created() -> None:
    register("server-a")
    own = {"address": "x", "version": "", "certificate_not_after": None, "certificate_fingerprint": ""}
    assert not registration._created("server-a", own, database_now())
    assert ServerNode.objects.get().address != "x"


@pytest.mark.django_db(transaction=True)
def test_sixteen_processes_of_one_new_id_start_at_once() -> None:
    """R10's ground: each start has an epoch of its own, and one record exists."""
    barrier = threading.Barrier(16)
    epochs: list[int] = []

    def start() -> None:
        barrier.wait()
        try:
            epochs.append(writes(register)("server-a").epoch)
        finally:
            connection.close()

    threads = [threading.Thread(target=start) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == list(range(1, 17))
    assert ServerNode.objects.get().epoch == 16
