"""tokens.services.service_tokens: issued once, as a digest, with a scope that names usable nodes only (F1-F6)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection

from nodes.models import ServerNode
from nodes.selectors import authorisation_revision
from tests.support.fleet import disable, issue, register
from tokens.models import ServiceToken
from tokens.principal import TokenType
from tokens.scope import AgentScope, Allowlist, Fleet, Scope, decode
from tokens.secret import digest, is_well_formed
from tokens.services import service_tokens
from tokens.services.service_tokens import token_issue
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.errors import Invalid
from tunnelmesh.db.clock import database_now

pytestmark = pytest.mark.django_db


def test_what_is_stored() -> None:
    user = User.objects.create(username="admin")
    register("server-a")
    scope = Allowlist(frozenset({"server-a"}))
    expires_at = database_now() + timedelta(days=90)
    row, secret = token_issue(
        TokenType.SERVER_NODE, name="Relay 机房", scope=scope, expires_at=expires_at, owner=user, actor="user:1"
    )

    stored = ServiceToken.objects.get(id=row.id)
    assert is_well_formed(secret)
    assert secret.reveal().startswith("tmn_")
    assert (stored.digest, stored.prefix) == (digest(secret), secret.reveal()[:8])
    assert (stored.type, stored.name, stored.owner, stored.expires_at) == (
        "server_node",
        "Relay 机房",
        user,
        expires_at,
    )
    assert decode(stored.scope) == scope
    assert (stored.revoked_at, stored.deleted_at, stored.last_used_at, stored.legacy_node_id) == (None,) * 4


def test_the_secret_is_nowhere_in_the_database() -> None:
    _, secret = issue(Fleet())
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM service_tokens")
        rows = repr(cursor.fetchall())
        cursor.execute("SELECT * FROM audit_logs")
        rows += repr(cursor.fetchall())
    assert secret.reveal() not in rows
    assert secret.reveal()[:12] not in rows


def test_it_is_audited_and_moves_the_revision() -> None:
    revision = authorisation_revision()
    row, _ = issue(AgentScope("agent-1"))
    event = AuditEvent.objects.get()
    assert (event.action, event.target, event.actor) == ("token.issued", f"service_token:{row.id}", "test")
    assert "agent-1" in event.after
    assert row.digest not in event.after
    assert authorisation_revision() == revision + 1


def test_no_token_without_its_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_tokens.audit, "record", lambda *_args, **_kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        issue(Fleet())
    assert not ServiceToken.objects.exists()


def test_members_that_cannot_be_in_a_scope() -> None:
    for node_id in ("server-a", "server-b", "server-c"):
        register(node_id)
    disable("server-b")
    ServerNode.objects.get(id="server-c").delete()
    with pytest.raises(Invalid) as caught:
        issue(Allowlist(frozenset({"server-a", "server-b", "server-c", "server-d"})))
    assert caught.value.code == "bad_scope_member"
    assert "server-b (disabled), server-c (deleted), server-d (unknown)" in caught.value.message
    assert "server-a" not in caught.value.message
    assert not ServiceToken.objects.exists()


@pytest.mark.parametrize(
    ("kind", "scope"),
    [
        (TokenType.SERVER_NODE, AgentScope("a")),
        (TokenType.AGENT, Fleet()),
        (TokenType.SERVER_NODE, Allowlist(frozenset())),
        (TokenType.AGENT, AgentScope("Not An Id")),
    ],
)
def test_scopes_that_do_not_fit(kind: TokenType, scope: Scope) -> None:
    with pytest.raises(Invalid) as caught:
        token_issue(kind, name="x", scope=scope, actor="test")
    assert caught.value.code == "bad_scope"


@pytest.mark.parametrize("name", ["", " ", " x", "x\n", "a\u202eb", "a\u200bb", "x" * 192, "a\x00b"])
def test_bad_names(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        issue(Fleet(), name=name)
    assert caught.value.code == "bad_name"


def test_an_expiry_that_has_passed() -> None:
    with pytest.raises(Invalid) as caught:
        issue(Fleet(), expires_at=database_now())
    assert caught.value.code == "past_deadline"


def test_two_secrets_are_never_the_same() -> None:
    assert len({issue(Fleet())[0].digest for _ in range(20)}) == 20
