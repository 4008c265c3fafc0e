"""relay.services.publishing: what is published where, checked, audited and counted."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from nodes.models import ServerNode
from nodes.selectors import authorisation_revision
from relay.models import Route, Service
from relay.services import publishing
from relay.services.publishing import (
    restore,
    route_change,
    route_open,
    service_change,
    service_publish,
    withdraw,
)
from tests.support.fleet import register
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.errors import Conflict, DomainError, Invalid

pytestmark = pytest.mark.django_db


@pytest.fixture
def web(db: None) -> Service:
    register("server-a")
    register("server-b")
    return service_publish("web", agent_id="agent-1", host="127.0.0.1", port=8080, actor="test")


def actions() -> list[str]:
    return list(AuditEvent.objects.exclude(action="node.registered").order_by("id").values_list("action", flat=True))


def test_every_change_is_audited_and_counted(web: Service) -> None:
    before = authorisation_revision()
    route = route_open(web, server_node_id="server-a", host="127.0.0.1", port=18080, actor="test")
    service_change(web, actor="test", port=8081)
    route_change(route, actor="test", enabled=False)
    withdraw(route, actor="test")
    restore(route, actor="test")
    assert actions() == [
        "service.published",
        "route.opened",
        "service.changed",
        "route.changed",
        "route.withdrawn",
        "route.restored",
    ]
    assert authorisation_revision() == before + 5
    changed = AuditEvent.objects.get(action="service.changed")
    assert (json.loads(changed.before)["port"], json.loads(changed.after)["port"]) == (8080, 8081)
    assert changed.target == f"service:{web.id}"


def test_a_change_writes_its_columns_and_no_others(web: Service) -> None:
    """Two administrators with the same row in memory: neither undoes the other."""
    stale = Service.objects.get(id=web.id)
    service_change(web, actor="test", enabled=False)
    service_change(stale, actor="test", port=9)
    stored = Service.objects.get(id=web.id)
    assert (stored.enabled, stored.port) == (False, 9)


def test_no_change_without_its_audit(web: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing.audit, "record", lambda *_args, **_kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        service_change(web, actor="test", port=9)
    assert Service.objects.get(id=web.id).port == 8080


def test_withdrawing_twice_is_once(web: Service) -> None:
    for _ in range(2):
        withdraw(web, actor="test")
        withdraw(web, actor="test")
        restore(web, actor="test")
        restore(web, actor="test")
    assert actions()[1:] == ["service.withdrawn", "service.restored"] * 2


@pytest.mark.parametrize("state", ["published", "withdrawn"])
def test_names_are_unique_for_ever(web: Service, state: str) -> None:
    if state == "withdrawn":
        withdraw(web, actor="test")
    with pytest.raises(Conflict, match=state) as caught:
        service_publish("web", agent_id="agent-2", host="127.0.0.1", port=1, actor="test")
    assert caught.value.code == "service_exists"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "Web"}, "bad_service_name"),
        ({"name": ""}, "bad_service_name"),
        ({"agent_id": "Agent"}, "bad_agent_id"),
        ({"host": ""}, "bad_target"),
        ({"host": "a b"}, "bad_target"),
        ({"host": "a:1"}, "bad_target"),
        ({"host": "[::1]"}, "bad_target"),
        ({"host": "999.0.0.1"}, "bad_target"),
        ({"host": "x" * 300}, "bad_target"),
        ({"port": 0}, "bad_target"),
        ({"port": 65536}, "bad_target"),
        ({"port": -1}, "bad_target"),
    ],
)
def test_bad_services(changes: dict[str, object], code: str) -> None:
    good = {"name": "web", "agent_id": "agent-1", "host": "127.0.0.1", "port": 8080}
    with pytest.raises(Invalid) as caught:
        service_publish(**(good | changes), actor="test")
    assert caught.value.code == code
    assert not Service.objects.exists()


@pytest.mark.parametrize("host", ["db.internal", "127.0.0.1", "::1", "2001:db8::1"])
def test_good_targets(host: str) -> None:
    assert service_publish("web", agent_id="agent-1", host=host, port=65535, actor="test").host == host


class TestEntries:
    @pytest.mark.parametrize(
        ("one", "other", "clash"),
        [
            (("server-a", "127.0.0.1"), ("server-a", "127.0.0.1"), True),
            (("server-a", "127.0.0.1"), ("server-b", "127.0.0.1"), False),
            (("server-a", "127.0.0.1"), (None, "127.0.0.1"), True),
            ((None, "127.0.0.1"), ("server-a", "127.0.0.1"), True),
            (("server-a", "127.0.0.1"), ("server-a", "127.0.0.2"), False),
            (("server-a", "0.0.0.0"), ("server-a", "127.0.0.2"), True),
            (("server-a", "127.0.0.1"), ("server-a", "::"), True),
        ],
    )
    def test_one_port_one_entry(
        self, web: Service, one: tuple[str | None, str], other: tuple[str | None, str], clash: bool
    ) -> None:
        route_open(web, server_node_id=one[0], host=one[1], port=18080, actor="test")
        expected = pytest.raises(Conflict, match="port 18080 is the entry") if clash else nullcontext()
        with expected:
            route_open(web, server_node_id=other[0], host=other[1], port=18080, actor="test")
        assert Route.active.count() == (1 if clash else 2)

    def test_a_withdrawn_route_frees_its_port_and_cannot_come_back_into_a_taken_one(self, web: Service) -> None:
        first = route_open(web, host="127.0.0.1", port=18080, actor="test")
        withdraw(first, actor="test")
        route_open(web, host="127.0.0.1", port=18080, actor="test")
        with pytest.raises(Conflict):
            restore(first, actor="test")
        assert Route.active.count() == 1

    def test_a_change_does_not_clash_with_itself(self, web: Service) -> None:
        route = route_open(web, host="127.0.0.1", port=18080, actor="test")
        assert route_change(route, actor="test", host="127.0.0.1").host == "127.0.0.1"

    @pytest.mark.parametrize("node_id", ["server-x", "server-b"])
    def test_nodes_that_cannot_have_one(self, web: Service, node_id: str) -> None:
        ServerNode.objects.get(id="server-b").delete()
        with pytest.raises(Invalid) as caught:
            route_open(web, server_node_id=node_id, host="127.0.0.1", port=1, actor="test")
        assert caught.value.code == "unknown_node"

    def test_a_bad_listen_address(self, web: Service) -> None:
        with pytest.raises(Invalid) as caught:
            route_open(web, host="not an address", port=1, actor="test")
        assert caught.value.code == "bad_listen"


def test_what_cannot_be_changed(web: Service) -> None:
    for change in ({"name": "other"}, {"deleted_at": None}, {"id": 7}):
        with pytest.raises(DomainError) as caught:
            service_change(web, actor="test", **change)
        assert caught.value.code == "bad_field"
