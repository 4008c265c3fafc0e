"""nodes.services.leases: the newest generation wins, whatever comes late (P8, R2, R3)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection

from nodes.models import AgentConnection, ServerNode
from nodes.selectors import live_leases
from nodes.services import leases
from nodes.services.leases import lease_close, lease_open, node_leases_close
from tests.support.fleet import disable, let_expire, live_node, register
from tunnelmesh.common.errors import Conflict, Refused
from tunnelmesh.db.clock import database_now
from tunnelmesh.db.unit import writes

pytestmark = pytest.mark.django_db


def live(agent_id: str = "agent") -> list[tuple[str, int]]:
    return [(row.connection_id, row.generation) for row in live_leases(agent_id, database_now()).order_by("generation")]


def test_a_second_connection_supersedes_the_first_on_its_node() -> None:
    epoch = live_node("server-a").epoch
    assert lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c1").generation == 1
    assert lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c2").generation == 2

    assert live() == [("c2", 2)]
    old = AgentConnection.objects.get(connection_id="c1")
    assert (old.close_reason, old.closed_at is not None) == ("superseded", True)


def test_connections_to_two_nodes_stand_side_by_side() -> None:
    for node_id, connection_id in (("server-a", "c1"), ("server-b", "c2")):
        lease_open(node_id, epoch=live_node(node_id).epoch, agent_id="agent", connection_id=connection_id)
    assert live() == [("c1", 1), ("c2", 2)]


def test_a_late_close_of_an_old_generation_changes_nothing() -> None:
    epoch = live_node("server-a").epoch
    lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c1")
    lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c2")
    rows = list(AgentConnection.objects.values())

    assert not lease_close("c1", generation=1, reason="late")
    assert not lease_close("c2", generation=1, reason="wrong generation")
    assert not lease_close("unknown", generation=1, reason="never was")
    assert list(AgentConnection.objects.values()) == rows


def test_close_writes_its_reason_once() -> None:
    epoch = live_node("server-a").epoch
    lease = lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c1")
    assert lease_close("c1", generation=lease.generation, reason="keepalive")
    assert not lease_close("c1", generation=lease.generation, reason="shutdown")
    assert AgentConnection.objects.get().close_reason == "keepalive"
    assert live() == []


def test_an_older_epoch_opens_nothing() -> None:
    old = live_node("server-a").epoch
    register("server-a")
    with pytest.raises(Conflict) as caught:
        lease_open("server-a", epoch=old, agent_id="agent", connection_id="c1")
    assert caught.value.code == "stale_epoch"
    assert not AgentConnection.objects.exists()


def test_a_disabled_or_deleted_node_opens_nothing() -> None:
    epoch = live_node("server-a").epoch
    disable("server-a")
    with pytest.raises(Refused):
        lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c1")


def test_registration_closes_what_the_process_before_left_open() -> None:
    epoch = live_node("server-a").epoch
    lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c1")
    register("server-a")
    assert AgentConnection.objects.get().close_reason == "fenced"


def test_a_node_closes_its_own_epoch_only() -> None:
    epoch = live_node("server-a").epoch
    lease_open("server-a", epoch=epoch, agent_id="agent-1", connection_id="c1")
    lease_open("server-b", epoch=live_node("server-b").epoch, agent_id="agent-2", connection_id="c2")

    assert node_leases_close("server-a", epoch=epoch + 1, reason="shutdown") == 0
    assert node_leases_close("server-a", epoch=epoch, reason="shutdown") == 1
    assert [row.connection_id for row in AgentConnection.objects.filter(closed_at=None)] == ["c2"]


def test_a_number_that_another_node_drew_first_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL alone lets two transactions get so far; here the other node is played."""
    epoch = live_node("server-a").epoch
    draw, taken = leases._open, iter([IntegrityError("agent_leases_generation")] * (leases.OPEN_ATTEMPTS - 1))

    def unlucky(*arguments: object) -> object:
        for error in taken:
            raise error
        return draw(*arguments)

    monkeypatch.setattr(leases, "_open", unlucky)
    assert lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c1").generation == 1


class TestLive:
    """A lease is live while its row is open and its node's record is live at the same epoch."""

    @pytest.fixture(autouse=True)
    def _lease(self, db: None) -> None:
        lease_open("server-a", epoch=live_node("server-a").epoch, agent_id="agent", connection_id="c1")
        assert live() == [("c1", 1)]

    @pytest.mark.parametrize(
        "fall",
        [
            lambda: disable("server-a"),
            lambda: ServerNode.objects.filter(id="server-a").delete(),
            lambda: let_expire("server-a"),
            lambda: register("server-a"),
            lambda: live_node("server-a"),
            lambda: node_leases_close("server-a", epoch=1, reason="end"),
        ],
        ids=["disabled", "deleted", "expired", "registered anew", "beating anew", "closed"],
    )
    def test_no_longer(self, fall: Callable[[], object]) -> None:
        fall()
        assert live() == []

    def test_another_agents(self) -> None:
        assert live("agent-2") == []
        assert live("Agent") == []


@pytest.mark.django_db(transaction=True)
def test_open_and_late_close_from_two_threads_200_times() -> None:
    """R3: whichever order they land in, the agent is online under the newest generation."""
    epoch = live_node("server-a").epoch
    lease_open("server-a", epoch=epoch, agent_id="agent", connection_id="c1")
    barrier = threading.Barrier(2)
    faults: list[BaseException] = []

    def run(step: Callable[[int], object]) -> None:
        try:
            for round_ in range(1, 201):
                barrier.wait(timeout=30)
                step(round_)
                barrier.wait(timeout=30)
                if live() != [(f"c{round_ + 1}", round_ + 1)]:
                    raise AssertionError(f"round {round_}: {live()}")
        except BaseException as fault:  # noqa: BLE001 - handed to the test's own thread
            faults.append(fault)
            barrier.abort()
        finally:
            connection.close()

    steps = (
        lambda n: lease_open("server-a", epoch=epoch, agent_id="agent", connection_id=f"c{n + 1}"),
        lambda n: lease_close(f"c{n}", generation=n, reason="late"),
    )
    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.django_db(transaction=True)
def test_eight_nodes_open_for_one_agent_at_once() -> None:
    epochs = {f"server-{n}": live_node(f"server-{n}").epoch for n in range(8)}
    barrier = threading.Barrier(8)

    def open_on(node_id: str) -> None:
        barrier.wait()
        try:
            writes(lease_open)(node_id, epoch=epochs[node_id], agent_id="agent", connection_id=f"c-{node_id}")
        finally:
            connection.close()

    threads = [threading.Thread(target=open_on, args=(node_id,)) for node_id in epochs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [generation for _, generation in live()] == list(range(1, 9))
