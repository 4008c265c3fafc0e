"""Django admin: changes go through services, nothing is hard-deleted, no secret is shown (R31)."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from nodes.models import ServerNode
from relay.models import Route, Service
from relay.services.publishing import route_open, service_publish
from tests.support.fleet import issue, live_node
from tokens.models import ServiceToken
from tokens.scope import Fleet
from tunnelmesh.audit.models import AuditEvent

pytestmark = pytest.mark.django_db
NEW_SERVICE = {"name": "web", "agent_id": "agent-1", "host": "127.0.0.1", "port": "8080", "enabled": "on"}


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_superuser("admin", password="x")


@pytest.fixture
def console(client: Client, user: User) -> Client:
    client.force_login(user)
    return client


def last_event() -> tuple[str, str]:
    event = AuditEvent.objects.latest("id")
    return event.action, event.actor


def test_services_are_published_changed_withdrawn_and_restored(console: Client, user: User) -> None:
    actor = f"user:{user.pk}"
    page = console.post("/admin/relay/service/add/", NEW_SERVICE)
    assert page.status_code == 302, page.content
    assert last_event() == ("service.published", actor)
    service = Service.objects.get()

    changed = {**NEW_SERVICE, "port": "8081"}
    assert console.post(f"/admin/relay/service/{service.pk}/change/", changed).status_code == 302
    assert last_event() == ("service.changed", actor)
    assert Service.objects.get().port == 8081

    for action, event, active in (("withdraw", "service.withdrawn", 0), ("restore", "service.restored", 1)):
        console.post("/admin/relay/service/", {"action": action, "_selected_action": service.pk})
        assert last_event() == (event, actor)
        assert Service.active.count() == active


def test_routes_are_opened_and_changed(console: Client) -> None:
    live_node("server-a")
    service = service_publish("web", agent_id="agent-1", host="127.0.0.1", port=8080, actor="test")
    form = {"service": service.pk, "server_node": "server-a", "host": "127.0.0.1", "port": "18080", "enabled": "on"}
    assert console.post("/admin/relay/route/add/", form).status_code == 302
    route = Route.objects.get()
    assert (route.server_node_id, route.port, last_event()[0]) == ("server-a", 18080, "route.opened")

    form = {**form, "server_node": "", "port": "18081"}
    assert console.post(f"/admin/relay/route/{route.pk}/change/", form).status_code == 302
    route.refresh_from_db()
    assert (route.server_node_id, route.port, last_event()[0]) == (None, 18081, "route.changed")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "Not A Name"}, "no service name"),
        ({"agent_id": "Agent"}, "not an agent id"),
        ({"host": "a b"}, "no address"),
        ({"port": "70000"}, "no address"),
        ({"port": ""}, "required"),
    ],
)
def test_the_services_answer_stands_beside_the_form(console: Client, changes: dict[str, str], told: str) -> None:
    page = console.post("/admin/relay/service/add/", NEW_SERVICE | changes)
    assert page.status_code == 200
    assert told in page.content.decode()
    assert not Service.objects.exists()


def test_a_withdrawn_name_stays_taken(console: Client) -> None:
    service_publish("web", agent_id="agent-1", host="127.0.0.1", port=8080, actor="test").delete()
    page = console.post("/admin/relay/service/add/", NEW_SERVICE)
    assert page.status_code == 200
    assert "already exists" in page.content.decode()


def test_a_restore_that_clashes_is_told(console: Client) -> None:
    service = service_publish("web", agent_id="agent-1", host="127.0.0.1", port=8080, actor="test")
    first = route_open(service, host="127.0.0.1", port=18080, actor="test")
    first.delete()
    route_open(service, host="127.0.0.1", port=18080, actor="test")
    page = console.post("/admin/relay/route/", {"action": "restore", "_selected_action": first.pk}, follow=True)
    assert "port 18080 is the entry of service web" in page.content.decode()
    assert Route.active.count() == 1


@pytest.mark.parametrize(
    "model",
    ["nodes/servernode", "nodes/agentconnection", "tokens/servicetoken", "tokens/refusedattempt", "audit/auditevent"],
)
def test_the_rest_is_to_read(console: Client, model: str) -> None:
    live_node("server-a")
    assert console.get(f"/admin/{model}/").status_code == 200
    assert console.get(f"/admin/{model}/add/").status_code == 403


def test_nothing_is_deleted(console: Client) -> None:
    live_node("server-a")
    token, _ = issue(Fleet())
    service = service_publish("web", agent_id="agent-1", host="127.0.0.1", port=8080, actor="test")
    event = AuditEvent.objects.earliest("id")
    for path in (
        "nodes/servernode/server-a",
        f"tokens/servicetoken/{token.pk}",
        f"relay/service/{service.pk}",
        f"audit/auditevent/{event.pk}",
    ):
        assert console.post(f"/admin/{path}/delete/", {"post": "yes"}).status_code == 403
        listing = f"/admin/{path.rpartition('/')[0]}/"
        console.post(listing, {"action": "delete_selected", "_selected_action": path.rpartition("/")[2], "post": "yes"})
    assert ServerNode.active.count() == ServiceToken.active.count() == Service.active.count() == 1
    assert AuditEvent.objects.filter(pk=event.pk).exists()


def test_a_tokens_page_shows_neither_secret_nor_digest(console: Client) -> None:
    token, secret = issue(Fleet())
    for path in ("/admin/tokens/servicetoken/", f"/admin/tokens/servicetoken/{token.pk}/change/"):
        page = console.get(path)
        assert page.status_code == 200
        assert token.digest not in page.content.decode()
        assert secret.reveal()[:12] not in page.content.decode()
