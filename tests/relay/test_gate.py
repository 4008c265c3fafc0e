"""relay.gate: the table of design.md section 3, row by row and in every combination (F8-F11, R9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from relay import gate
from relay.gate import Admitted, NodeClaim, NodeFacts, RecordFacts, Refusal, TokenFacts, TokenProblem, admit
from tokens.scope import Allowlist, Fleet
from tunnelmesh.common.secrets import Secret

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SOON = NOW + timedelta(microseconds=1)
CLAIM = NodeClaim("server-a", 7, Secret("irrelevant here"), ("server-a",), "sha256:ab", "192.0.2.1")
TOKEN = TokenFacts("3", Fleet(), None)
RECORD = RecordFacts(enabled=True, deleted=False, epoch=7, heartbeat_epoch=7, expires_at=SOON)
FACTS = NodeFacts(TOKEN, RECORD)

ROWS = {
    2: ("unauthenticated", 401, "certificate"),
    3: ("unauthenticated", 401, "token"),
    4: ("unauthenticated", 401, "record"),
    5: ("forbidden", 403, "identity"),
    6: ("forbidden", 403, "scope"),
    7: ("forbidden", 403, "lifecycle"),
    8: ("stale", 412, "freshness"),
    9: ("busy", 503, "capacity"),
}


def judge(failing: set[int]) -> Admitted | Refusal:
    """The verdict on a caller for whom exactly these rows are wrong."""
    claim, token, record = CLAIM, TOKEN, RECORD
    sans: tuple[str, ...] = ("server-b",) if 5 in failing else ("server-a",)
    claim = replace(claim, san_ids=(*sans, "server-c") if 2 in failing else sans)
    token = replace(token, scope=Allowlist(frozenset({"server-b"})) if 6 in failing else Fleet())
    record = replace(record, enabled=7 not in failing, epoch=8 if 8 in failing else 7)
    facts = NodeFacts(TokenProblem("unknown") if 3 in failing else token, None if 4 in failing else record)
    return admit(claim, facts, NOW, has_capacity=9 not in failing)


def test_everything_right() -> None:
    assert judge(set()) == Admitted("server-a", 7, "3", None, SOON)


@pytest.mark.parametrize("row", ROWS)
def test_each_row_alone(row: int) -> None:
    verdict = judge({row})
    assert isinstance(verdict, Refusal)
    code, status, name = ROWS[row]
    assert (verdict.check, verdict.code, verdict.status, verdict.check_name) == (row, code, status, name)
    assert verdict.reason
    assert verdict.hint


def test_of_several_wrong_rows_the_first_is_told() -> None:
    for wrong in product((False, True), repeat=len(ROWS)):
        failing = {row for row, is_wrong in zip(ROWS, wrong, strict=True) if is_wrong}
        verdict = judge(failing)
        assert (verdict.check if isinstance(verdict, Refusal) else None) == min(failing, default=None), failing


@pytest.mark.parametrize(
    ("sans", "node_id"),
    [
        (("server-a",), "server-a"),
        (("host.example.com", "server-a", "*.example.com"), "server-a"),
        ((), None),
        (("server-a", "server-b"), None),
        (("server-a", "server-a"), None),
        (("server-a.",), None),
        (("server-a\x00.evil",), None),
        (("Server-A",), "Server-A"),
        (("server-a\x00",), "server-a\x00"),
        (("*",), "*"),
        (("server-a ",), "server-a "),
        (("",), ""),
    ],
)
def test_the_node_id_of_a_certificate(sans: tuple[str, ...], node_id: str | None) -> None:
    assert gate.certificate_node_id(sans) == node_id
    verdict = admit(replace(CLAIM, san_ids=sans), FACTS, NOW, has_capacity=True)
    assert isinstance(verdict, Admitted) == (node_id == "server-a")


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"deleted": True}, 7),
        ({"deleted": True, "enabled": False}, 7),
        ({"epoch": 6}, 8),
        ({"epoch": 2**40}, 8),
        ({"expires_at": NOW}, 8),
        ({"expires_at": None}, 8),
        ({"heartbeat_epoch": 6}, 8),
        ({"heartbeat_epoch": None}, 8),
    ],
)
def test_records_that_admit_nobody(changes: dict[str, object], check: int) -> None:
    verdict = admit(CLAIM, NodeFacts(TOKEN, replace(RECORD, **changes)), NOW, has_capacity=True)
    assert isinstance(verdict, Refusal)
    assert verdict.check == check


@pytest.mark.parametrize("scope", [Fleet(), Allowlist(frozenset({"server-b", "server-a"}))])
def test_scopes_that_admit(scope: gate.NodeScope) -> None:
    facts = NodeFacts(replace(TOKEN, scope=scope, expires_at=SOON), RECORD)
    verdict = admit(CLAIM, facts, NOW, has_capacity=True)
    assert verdict == Admitted("server-a", 7, "3", SOON, SOON)


def test_an_allowlist_without_nodes_admits_nobody() -> None:
    verdict = admit(CLAIM, NodeFacts(replace(TOKEN, scope=Allowlist(frozenset())), RECORD), NOW, has_capacity=True)
    assert isinstance(verdict, Refusal)
    assert verdict.check == 6


def test_unknown_facts_admit_nobody_and_blame_nobody() -> None:
    verdict = admit(CLAIM, None, NOW, has_capacity=True)
    assert isinstance(verdict, Refusal)
    assert (verdict.check, verdict.code, verdict.status, verdict.check_name) == (0, "unavailable", 503, "facts")
    stranger = admit(replace(CLAIM, san_ids=()), None, NOW, has_capacity=True)
    assert isinstance(stranger, Refusal)
    assert stranger.check == 2


def test_the_caller_hears_one_text_for_every_reason_behind_a_code() -> None:
    texts: dict[str, set[str]] = {}
    for row in ROWS:
        verdict = judge({row})
        assert isinstance(verdict, Refusal)
        texts.setdefault(verdict.code, set()).add(verdict.detail)
        assert verdict.reason not in verdict.detail
    assert all(len(found) == 1 for found in texts.values())


def test_only_503_says_when_to_come_again() -> None:
    assert {row: judge({row}).retry_after for row in ROWS if judge({row}).retry_after} == {9: 5}
    assert gate.facts_unknown().retry_after == 5


def test_refusals_at_the_agents_door() -> None:
    assert (gate.other_agent("agent-1", "3").check, gate.other_agent("agent-1", "3").status) == (6, 403)
    assert gate.no_capacity().status == 503


def test_a_secret_is_in_no_text() -> None:
    secret = "tmn_" + "S" * 49
    for row in ROWS:
        assert secret not in str(judge({row}))
    assert secret not in repr(replace(CLAIM, token=Secret(secret)))
