"""tokens.scope: fleet and list are two shapes, and a scope that cannot be read is never a wider one (F2, R21)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokens.scope import AgentScope, Allowlist, Fleet, Scope, decode, encode
from tunnelmesh.common.errors import Invalid

ids = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
scopes = st.one_of(st.just(Fleet()), st.builds(Allowlist, st.frozensets(ids)), st.builds(AgentScope, ids))


@given(scopes)
def test_what_is_encoded_is_decoded(scope: Scope) -> None:
    assert decode(encode(scope)) == scope


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (Fleet(), '{"fleet":true,"serverNodeIds":[],"version":1}'),
        (Allowlist(frozenset({"b", "a"})), '{"fleet":false,"serverNodeIds":["a","b"],"version":1}'),
        (Allowlist(frozenset()), '{"fleet":false,"serverNodeIds":[],"version":1}'),
        (AgentScope("agent-1"), '{"agentId":"agent-1","version":1}'),
    ],
)
def test_the_stored_text(scope: Scope, text: str) -> None:
    """Never changes within a version: rows and the migration of schema 9 stand on it."""
    assert encode(scope) == text
    assert decode(text) == scope


def test_whom_a_scope_admits() -> None:
    assert Fleet().admits("anything")
    assert Allowlist(frozenset({"a"})).admits("a")
    assert not Allowlist(frozenset({"a"})).admits("A")
    assert not Allowlist(frozenset()).admits("a")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "{",
        '{"fleet":true,"serverNodeIds":[]}',
        '{"fleet":true,"serverNodeIds":[],"version":2}',
        '{"fleet":true,"serverNodeIds":[],"version":"1"}',
        '{"fleet":true,"version":1}',
        '{"fleet":true,"serverNodeIds":["a"],"version":1}',
        '{"fleet":1,"serverNodeIds":[],"version":1}',
        '{"fleet":"true","serverNodeIds":[],"version":1}',
        '{"serverNodeIds":[],"version":1}',
        '{"serverNodeIds":["a"],"version":1}',
        '{"fleet":false,"serverNodeIds":"a","version":1}',
        '{"fleet":false,"serverNodeIds":["A"],"version":1}',
        '{"fleet":false,"serverNodeIds":[1],"version":1}',
        '{"fleet":false,"serverNodeIds":["a"],"extra":0,"version":1}',
        '{"fleet":true,"serverNodeIds":[],"extra":0,"version":1}',
        '{"agentId":"","version":1}',
        '{"agentId":7,"version":1}',
        '{"agentId":"a","fleet":true,"version":1}',
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode(text)
    assert caught.value.code == "bad_scope"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_decodes_or_is_refused(value: object) -> None:
    for text in (json.dumps(value), json.dumps({"version": 1, "fleet": False, "serverNodeIds": value})):
        try:
            scope = decode(text)
        except Invalid:
            continue
        assert scope == Allowlist(frozenset(value))
