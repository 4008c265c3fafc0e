"""tokens.services.refusals: a ring that a stranger may fill and not overfill (D13)."""

from __future__ import annotations

import pytest

from tokens.models import RefusedAttempt
from tokens.services import refusals
from tokens.services.refusals import refusal_record

pytestmark = pytest.mark.django_db


def record(claimed_id: str = "x", reason: str = "the token is unknown") -> None:
    refusal_record("agent", check_name="token", claimed_id=claimed_id, source_address="192.0.2.1", reason=reason)


def test_the_newest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "RING_SIZE", 10)
    for number in range(25):
        record(str(number))
    rows = RefusedAttempt.objects.order_by("id").values_list("claimed_id", flat=True)
    assert list(rows) == [str(number) for number in range(15, 25)]


def test_the_bound() -> None:
    assert refusals.RING_SIZE == 1000


def test_what_strangers_sent_is_cut_and_inert() -> None:
    token = "tma_" + "Z" * 49
    record("名" * 10_000, f"{token} \n\u202e" + "r" * 10_000)
    row = RefusedAttempt.objects.get()
    assert (len(row.claimed_id), len(row.reason)) == (191, 500)
    assert token[:12] not in row.reason
    assert row.reason.isascii()
