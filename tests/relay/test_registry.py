"""relay.registry on a real database: admission by the facts of now, agents, leases, entries, an absent database."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError, connections

from nodes.facts import LeaseLoad, Standing
from nodes.models import Heartbeat, ServerNode
from relay import registry as module
from relay.gate import Admitted, NodeClaim, Refusal
from relay.models import Route, Service
from relay.registry import Entry, Registry
from relay.router import LeaseInfo
from tests.support.fleet import disable, issue, let_expire, live_node, register
from tokens.models import RefusedAttempt, ServiceToken
from tokens.principal import AgentPrincipal
from tokens.scope import AgentScope, Allowlist, Fleet, encode
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.errors import Conflict, DomainError
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.address import Address
from tunnelmesh.db.clock import database_now

pytestmark = pytest.mark.django_db
registry = Registry()


@pytest.fixture
def claim(db: None) -> NodeClaim:
    """A claim with which everything is right: server-a lives, and holds a token for itself alone."""
    epoch = live_node("server-a").epoch
    live_node("server-b")
    _, secret = issue(Allowlist(frozenset({"server-a"})))
    return NodeClaim("server-a", epoch, secret, ("server-a",), "sha256:ab", "192.0.2.7")


def refused(claim: NodeClaim, **kwargs: bool) -> Refusal:
    verdict = registry.admit_node(claim, **kwargs)
    assert isinstance(verdict, Refusal)
    return verdict


class TestAdmission:
    """F8-F11: each check fails alone, with all the others right."""

    def test_all_right(self, claim: NodeClaim) -> None:
        verdict = registry.admit_node(claim)
        assert isinstance(verdict, Admitted)
        token, beat = ServiceToken.objects.get(), Heartbeat.objects.get(server_node="server-a")
        assert verdict == Admitted("server-a", 1, str(token.id), None, beat.expires_at)
        assert not RefusedAttempt.objects.exists()

    @pytest.mark.parametrize(
        ("fault", "check", "status"),
        [
            (lambda: ServiceToken.objects.update(revoked_at=database_now()), 3, 401),
            (lambda: ServiceToken.objects.update(expires_at=database_now()), 3, 401),
            (lambda: ServiceToken.objects.all().delete(), 3, 401),
            (lambda: ServiceToken.objects.update(type="agent"), 3, 401),
            (lambda: ServiceToken.objects.update(type="client"), 3, 401),
            (lambda: ServiceToken.objects.update(scope=encode(Allowlist(frozenset({"server-b"})))), 6, 403),
            (lambda: ServiceToken.objects.update(scope=encode(Allowlist(frozenset()))), 6, 403),
            (lambda: disable("server-a"), 7, 403),
            (lambda: ServerNode.objects.filter(id="server-a").delete(), 7, 403),
            (lambda: let_expire("server-a"), 8, 412),
            (lambda: register("server-a"), 8, 412),
            (lambda: live_node("server-a"), 8, 412),
            (lambda: Heartbeat.objects.filter(server_node="server-a").update(expires_at=None), 8, 412),
        ],
        ids=[
            "token revoked", "token expired", "token deleted", "an agent's token", "a client's token",
            "scope names another node", "scope names no node", "node disabled", "node deleted", "record expired",
            "newer epoch registered", "newer epoch beating", "never beaten",
        ],
    )  # fmt: skip
    def test_a_fact_wrong(self, claim: NodeClaim, fault: Callable[[], object], check: int, status: int) -> None:
        fault()
        refusal = refused(claim)
        assert (refusal.check, refusal.status) == (check, status)

    @pytest.mark.parametrize(
        ("changes", "check"),
        [
            ({"san_ids": ()}, 2),
            ({"san_ids": ("server-a", "server-b")}, 2),
            ({"token": None}, 3),
            ({"token": Secret("tmn_" + "0" * 49)}, 3),
            ({"claimed_id": "server-x", "san_ids": ("server-x",)}, 4),
            ({"claimed_id": "Server-A", "san_ids": ("Server-A",)}, 4),
            ({"claimed_id": "sérver", "san_ids": ("sérver",)}, 4),
            ({"san_ids": ("server-b",)}, 5),
            ({"san_ids": ("SERVER-A",)}, 5),
            ({"claimed_id": "server-b", "san_ids": ("server-b",)}, 6),
            ({"epoch": 2}, 8),
            ({"epoch": 0}, 8),
        ],
    )
    def test_a_claim_wrong(self, claim: NodeClaim, changes: dict[str, object], check: int) -> None:
        assert refused(replace(claim, **changes)).check == check

    def test_no_capacity(self, claim: NodeClaim) -> None:
        assert refused(claim, has_capacity=False).code == "busy"

    def test_restored_and_enabled_it_is_admitted_again(self, claim: NodeClaim) -> None:
        disable("server-a")
        refused(claim)
        ServerNode.objects.update(enabled=True)
        assert isinstance(registry.admit_node(claim), Admitted)


class TestRefusalsWrittenDown:
    def test_strangers_go_to_the_ring(self, claim: NodeClaim) -> None:
        events = AuditEvent.objects.count()
        refused(replace(claim, san_ids=()))
        refused(replace(claim, token=None))
        refused(replace(claim, claimed_id="server-x", san_ids=("server-x",)))
        rows = RefusedAttempt.objects.order_by("id").values_list("door", "check_name", "claimed_id", "source_address")
        assert list(rows) == [
            ("relay", "certificate", "server-a", "192.0.2.7"),
            ("relay", "token", "server-a", "192.0.2.7"),
            ("relay", "record", "server-x", "192.0.2.7"),
        ]
        assert AuditEvent.objects.count() == events

    def test_members_go_to_the_audit_once_a_minute_for_each_check(
        self, claim: NodeClaim, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(3):
            refused(replace(claim, epoch=9))
            refused(claim, has_capacity=False)
        written = AuditEvent.objects.filter(action__startswith="admission.")
        assert sorted(written.values_list("action", "target")) == [
            ("admission.refused.capacity", "server_node:server-a"),
            ("admission.refused.freshness", "server_node:server-a"),
        ]
        event = written.get(action="admission.refused.freshness")
        assert (json.loads(event.after)["check"], event.source_address) == (8, "192.0.2.7")

        monkeypatch.setattr("relay.services.refusals.AUDITED_EVERY", timedelta(0))
        refused(replace(claim, epoch=9))
        assert written.filter(action="admission.refused.freshness").count() == 2
        assert not RefusedAttempt.objects.exists()

    def test_a_refusal_that_cannot_be_written_is_still_a_refusal(
        self, claim: NodeClaim, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def full(*_args: object, **_kwargs: object) -> None:
            raise OperationalError("disk full")

        monkeypatch.setattr("relay.services.refusals.refusal_record", full)
        assert refused(replace(claim, token=None)).check == 3
        assert "not recorded" in caplog.text

    def test_no_secret_is_written_anywhere(self, claim: NodeClaim, caplog: pytest.LogCaptureFixture) -> None:
        assert claim.token is not None
        refused(replace(claim, epoch=9))
        refused(replace(claim, san_ids=()))
        ServiceToken.objects.update(revoked_at=database_now())
        refused(claim)
        rows = [*RefusedAttempt.objects.values(), *AuditEvent.objects.values()]
        assert claim.token.reveal()[:12] not in repr(rows) + caplog.text


class TestAgents:
    @pytest.fixture
    def secret(self, db: None) -> Secret:
        return issue(AgentScope("agent-1"))[1]

    def test_its_own_token(self, secret: Secret) -> None:
        principal = registry.authenticate_agent(secret, agent_id="agent-1", source="192.0.2.7")
        assert principal == AgentPrincipal("agent-1", str(ServiceToken.objects.get().id), None)

    def test_another_agents_token(self, secret: Secret) -> None:
        refusal = registry.authenticate_agent(secret, agent_id="agent-2", source="192.0.2.7")
        assert isinstance(refusal, Refusal)
        assert (refusal.check, refusal.status, refusal.code) == (6, 403, "forbidden")
        event = AuditEvent.objects.get(action="admission.refused.scope")
        assert (event.actor, event.target) == ("agent:agent-1", "agent:agent-1")
        assert "agent-2" in str(event.after)

    def test_names_of_others_do_not_fill_the_audit(self, secret: Secret) -> None:
        for number in range(3):
            registry.authenticate_agent(secret, agent_id=f"other-{number}", source="192.0.2.7")
        assert AuditEvent.objects.filter(action="admission.refused.scope").count() == 1

    @pytest.mark.parametrize("bad", [None, Secret(""), Secret("tma_" + "0" * 49)])
    def test_a_strangers(self, bad: Secret | None) -> None:
        refusal = registry.authenticate_agent(bad, agent_id="agent-1", source="192.0.2.7")
        assert isinstance(refusal, Refusal)
        assert (refusal.check, refusal.status) == (3, 401)
        assert RefusedAttempt.objects.get().door == "agent"

    def test_a_nodes_token(self) -> None:
        _, secret = issue(Fleet())
        refusal = registry.authenticate_agent(secret, agent_id="agent-1", source="192.0.2.7")
        assert isinstance(refusal, Refusal)
        assert refusal.check == 3

    def test_no_capacity(self, secret: Secret) -> None:
        refusal = registry.authenticate_agent(secret, agent_id="agent-1", source="192.0.2.7", has_capacity=False)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "busy"


class TestLeases:
    def test_from_registration_to_the_end(self) -> None:
        me = registry.register_node(
            "server-a",
            address="a.example:9443",
            version="0.1",
            certificate_not_after=database_now(),
            certificate_fingerprint="sha256:ab",
        )
        lease = registry.open_lease("server-a", epoch=me.epoch, agent_id="agent", connection_id="c1")
        assert registry.live_leases("agent") == [], "the node has not beaten yet"

        beat = registry.heartbeat("server-a", epoch=me.epoch, loads=[LeaseLoad("c1", lease.generation, 3, 90)])
        assert beat.standing is Standing.OK
        assert registry.live_leases("agent") == [LeaseInfo("agent", "c1", "server-a", 1, 1, "a.example:9443", 3)]

        assert registry.close_lease("c1", generation=lease.generation, reason="bye")
        assert registry.live_leases("agent") == []
        registry.open_lease("server-a", epoch=me.epoch, agent_id="agent", connection_id="c2")
        assert registry.close_node_leases("server-a", epoch=me.epoch, reason="shutdown") == 1

    def test_a_domain_error_passes(self) -> None:
        live_node("server-a")
        with pytest.raises(Conflict, match="not the newest"):
            registry.open_lease("server-a", epoch=9, agent_id="agent", connection_id="c1")

    def test_the_revision_moves_with_what_matters(self) -> None:
        before = registry.authorisation_revision()
        epoch = live_node("server-a").epoch
        assert registry.authorisation_revision() == before + 1
        registry.heartbeat("server-a", epoch=epoch)
        registry.open_lease("server-a", epoch=epoch, agent_id="agent", connection_id="c1")
        assert registry.authorisation_revision() == before + 1


class TestEntries:
    @pytest.fixture
    def route(self, db: None) -> Route:
        now = database_now()
        stamps = {"created_at": now, "updated_at": now}
        register("server-a")
        service = Service.objects.create(name="web", agent_id="agent-1", host="::1", port=8080, **stamps)
        return Route.objects.create(service=service, server_node_id="server-a", host="127.0.0.1", port=18080, **stamps)

    def test_its_own(self, route: Route) -> None:
        entry = Entry(route.id, "web", Address("127.0.0.1", 18080), "agent-1", "[::1]:8080", "tcp")
        assert registry.entries("server-a") == [entry]
        assert registry.entries("server-b") == []

    def test_those_of_every_node(self, route: Route) -> None:
        Route.objects.update(server_node=None)
        assert len(registry.entries("server-a")) == len(registry.entries("server-b")) == 1

    @pytest.mark.parametrize(
        "withdraw",
        [
            lambda: Route.objects.update(enabled=False),
            lambda: Route.objects.all().delete(),
            lambda: Service.objects.update(enabled=False),
            lambda: Service.objects.all().delete(),
            lambda: Route.objects.update(kind="http"),
        ],
        ids=["route disabled", "route deleted", "service disabled", "service deleted", "another kind"],
    )
    def test_not_what_is_withdrawn(self, route: Route, withdraw: Callable[[], object]) -> None:
        withdraw()
        assert registry.entries("server-a") == []


class TestDatabaseAway:
    @pytest.mark.django_db(transaction=True)
    def test_a_read_is_tried_once_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = self._fail(monkeypatch, times=1)
        assert registry.live_leases("agent") == []
        assert len(calls) == 2

    @pytest.mark.django_db(transaction=True)
    def test_then_it_is_the_domains_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fail(monkeypatch, times=2)
        with pytest.raises(DomainError) as caught:
            registry.live_leases("agent")
        assert caught.value.code == "database_unavailable"
        assert isinstance(caught.value.__cause__, OperationalError)

    @pytest.mark.django_db(transaction=True)
    def test_a_database_that_cannot_be_opened(self, claim: NodeClaim, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody is admitted, nobody is blamed, and every other call says so. A thread of its own connects anew."""
        monkeypatch.setitem(connections.settings["default"], "NAME", "/nonexistent/tunnelmesh.sqlite3")
        assert claim.token is not None
        token = claim.token
        results = [
            _in_a_thread(lambda: registry.admit_node(claim)),
            _in_a_thread(lambda: registry.authenticate_agent(token, agent_id="agent-1", source="192.0.2.7")),
        ]
        for verdict in results:
            assert isinstance(verdict, Refusal)
            assert (verdict.check, verdict.status, verdict.retry_after) == (0, 503, 5)
        for call in (
            lambda: registry.heartbeat("server-a", epoch=1),
            lambda: registry.open_lease("server-a", epoch=1, agent_id="agent", connection_id="c1"),
            lambda: registry.entries("server-a"),
            registry.authorisation_revision,
        ):
            error = _in_a_thread(call)
            assert isinstance(error, DomainError)
            assert error.code == "database_unavailable"

    @pytest.mark.django_db(transaction=True)
    def test_it_comes_back(self, claim: NodeClaim, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as away:
            away.setitem(connections.settings["default"], "NAME", "/nonexistent/tunnelmesh.sqlite3")
            assert isinstance(_in_a_thread(lambda: registry.admit_node(claim)), Refusal)
        assert isinstance(_in_a_thread(lambda: registry.admit_node(claim)), Admitted)

    @staticmethod
    def _fail(monkeypatch: pytest.MonkeyPatch, *, times: int) -> list[int]:
        calls: list[int] = []

        def flaky() -> object:
            calls.append(1)
            if len(calls) <= times:
                raise OperationalError("server has gone away")
            return database_now()

        monkeypatch.setattr(module, "database_now", flaky)
        return calls


def _in_a_thread(call: Callable[[], object]) -> object:
    """What the call gives or raises, in a thread that has no connection yet and leaves none."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(call())
        except DomainError as error:
            outcome.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]
