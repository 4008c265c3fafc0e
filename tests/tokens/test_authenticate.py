"""tokens.authenticate: types x doors, one comparison on every path, last use at most once a minute (R17, R20)."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.support.fleet import issue, live_node
from tokens.authenticate import authenticate
from tokens.models import ServiceToken
from tokens.principal import (
    OPENS,
    PREFIX,
    AgentPrincipal,
    Door,
    NodePrincipal,
    TokenRecord,
    TokenRefusal,
    TokenType,
    judge,
)
from tokens.scope import AgentScope, Allowlist, Fleet, Scope
from tokens.secret import generate
from tunnelmesh.common.secrets import Secret
from tunnelmesh.db.clock import database_now

pytestmark = pytest.mark.django_db

SCOPES: dict[TokenType, Scope] = {
    TokenType.SERVER_NODE: Fleet(),
    TokenType.AGENT: AgentScope("agent-1"),
    TokenType.CLIENT: Fleet(),
}
UNKNOWN = generate("tmn_", bytes)


EXPECTED = {
    (TokenType.SERVER_NODE, Door.RELAY): NodePrincipal,
    (TokenType.SERVER_NODE, Door.AGENT): TokenRefusal,
    (TokenType.AGENT, Door.RELAY): TokenRefusal,
    (TokenType.AGENT, Door.AGENT): AgentPrincipal,
    (TokenType.CLIENT, Door.RELAY): TokenRefusal,
    (TokenType.CLIENT, Door.AGENT): TokenRefusal,
}


class TestTable:
    """R20: the expected answers in full, so that a new type or door fails here until it is listed."""

    def test_it_is_complete(self) -> None:
        assert set(EXPECTED) == {(kind, door) for kind in TokenType for door in Door}
        assert set(OPENS) == set(PREFIX) == set(TokenType)

    @pytest.mark.parametrize(("kind", "door"), EXPECTED)
    def test_type_at_door(self, kind: TokenType, door: Door) -> None:
        now = database_now()
        token = TokenRecord("1", kind, SCOPES[kind], expires_at=None, revoked=False, deleted=False)
        assert isinstance(judge(token, door, now), EXPECTED[kind, door])

    def test_an_unknown_type_opens_nothing(self) -> None:
        token = TokenRecord("1", "root", Fleet(), expires_at=None, revoked=False, deleted=False)
        assert all(isinstance(judge(token, door, database_now()), TokenRefusal) for door in Door)

    @pytest.mark.parametrize(("kind", "scope"), [(TokenType.SERVER_NODE, AgentScope("a")), (TokenType.AGENT, Fleet())])
    def test_a_scope_of_another_type_opens_nothing(self, kind: TokenType, scope: Scope) -> None:
        token = TokenRecord("1", kind, scope, expires_at=None, revoked=False, deleted=False)
        assert all(isinstance(judge(token, door, database_now()), TokenRefusal) for door in Door)


def test_a_node_token() -> None:
    live_node("server-a")
    now = database_now()
    expires_at = now + timedelta(days=1)
    token, secret = issue(Allowlist(frozenset({"server-a"})), expires_at=expires_at)
    principal = authenticate(secret, Door.RELAY, now=now)
    assert principal == NodePrincipal(str(token.id), Allowlist(frozenset({"server-a"})), expires_at)


def test_an_agent_token() -> None:
    token, secret = issue(AgentScope("agent-1"))
    assert authenticate(secret, Door.AGENT, now=database_now()) == AgentPrincipal("agent-1", str(token.id), None)


def spoil(**columns: object) -> Callable[[], Secret]:
    def make() -> Secret:
        token, secret = issue(Fleet())
        ServiceToken.objects.filter(id=token.id).update(**columns)
        return secret

    return make


BAD: dict[str, Callable[[], Secret | None]] = {
    "none": lambda: None,
    "empty": lambda: Secret(""),
    "malformed": lambda: Secret("Bearer ü\x00"),
    "unknown": lambda: UNKNOWN,
    "wrong checksum": lambda: Secret(UNKNOWN.reveal()[:-1] + "!"),
    "revoked": spoil(revoked_at="2026-01-01T00:00Z"),
    "deleted": spoil(deleted_at="2026-01-01T00:00Z"),
    "expired": spoil(expires_at="2026-01-01T00:00Z"),
    "of another type": spoil(type="agent"),
    "of an unknown type": spoil(type="root"),
    "unreadable scope": spoil(scope="{}"),
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_bad_secrets_are_refused_with_one_comparison(
    make: Callable[[], Secret | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison is in constant time and happens once, whatever is wrong, so that timing tells nothing."""
    secret, compare, calls = make(), hmac.compare_digest, []
    monkeypatch.setattr(hmac, "compare_digest", lambda *pair: calls.append(pair) or compare(*pair))
    refusal = authenticate(secret, Door.RELAY, now=database_now())
    assert isinstance(refusal, TokenRefusal)
    assert len(calls) == 1
    assert not ServiceToken.objects.exclude(last_used_at=None).exists()
    if secret is not None and secret.reveal():
        assert secret.reveal() not in refusal.reason


def test_the_right_secret_is_compared_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = issue(Fleet())
    compare, calls = hmac.compare_digest, []
    monkeypatch.setattr(hmac, "compare_digest", lambda *pair: calls.append(pair) or compare(*pair))
    assert isinstance(authenticate(secret, Door.RELAY, now=database_now()), NodePrincipal)
    assert len(calls) == 1


def test_an_expiry_equal_to_now_has_passed() -> None:
    now = database_now()
    _, secret = issue(Fleet(), expires_at=now + timedelta(hours=1))
    just_before = now + timedelta(hours=1) - timedelta(microseconds=1)
    assert isinstance(authenticate(secret, Door.RELAY, now=just_before), NodePrincipal)
    assert isinstance(authenticate(secret, Door.RELAY, now=now + timedelta(hours=1)), TokenRefusal)


def test_the_legacy_binding_is_not_even_read() -> None:
    """F3. A one-node column that names another node, or nonsense, changes nothing."""
    token, secret = issue(Fleet())
    ServiceToken.objects.filter(id=token.id).update(legacy_node_id="some-other-node")
    with CaptureQueriesContext(connection) as queries:
        assert isinstance(authenticate(secret, Door.RELAY, now=database_now()), NodePrincipal)
    assert queries.captured_queries
    assert not [query for query in queries.captured_queries if '"node_id"' in query["sql"]]


def test_last_use_is_written_at_most_once_a_minute() -> None:
    token, secret = issue(Fleet())
    now = database_now()
    minute = timedelta(minutes=1)
    seen = []
    for at in (now, now + minute / 2, now + minute, now + minute * 1.5):
        authenticate(secret, Door.RELAY, now=at)
        seen.append(ServiceToken.objects.get(id=token.id).last_used_at)
    assert seen == [now, now, now + minute, now + minute]


@pytest.mark.django_db(transaction=True)
def test_200_parallel_uses_write_once() -> None:
    """R17, on the database that the tests run on."""
    _, secret = issue(Fleet())
    now = database_now()
    barrier = threading.Barrier(8)
    written: list[int] = []
    answers: list[object] = []

    def use() -> None:
        try:
            barrier.wait(timeout=30)
            with CaptureQueriesContext(connection) as queries:
                answers.extend(authenticate(secret, Door.RELAY, now=now) for _ in range(25))
            written.append(sum(query["sql"].startswith("UPDATE") for query in queries.captured_queries))
        finally:
            connection.close()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 200
    assert all(isinstance(answer, NodePrincipal) for answer in answers)
    assert sum(written) <= 8, "each thread tries at most once, and all but one match no row"
    assert ServiceToken.objects.get().last_used_at == now
