"""tunnelmesh.common.deadline: the ends of validity that an operator may write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tunnelmesh.common.deadline import parse_deadline
from tunnelmesh.common.errors import Invalid

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90d", NOW + timedelta(days=90)),
        ("12h", NOW + timedelta(hours=12)),
        ("30m", NOW + timedelta(minutes=30)),
        ("1s", NOW + timedelta(seconds=1)),
        ("2w", NOW + timedelta(weeks=2)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T12:30", datetime(2027, 1, 31, 12, 30, tzinfo=UTC)),
        ("2027-01-31T12:30+02:00", datetime(2027, 1, 31, 10, 30, tzinfo=UTC)),
    ],
)
def test_good(text: str, moment: datetime) -> None:
    assert parse_deadline(text, now=NOW) == moment


@pytest.mark.parametrize("text", ["", "d", "0d", "-1d", "1y", "1.5h", "90", "9 d", "999999w", "31.01.2027", "never"])
def test_nonsense(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_deadline(text, now=NOW)
    assert caught.value.code == "bad_deadline"
    assert "90d" in caught.value.hint


@pytest.mark.parametrize("text", ["2026-06-01", "2026-06-01T12:00+00:00", "1999-12-31"])
def test_past(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_deadline(text, now=NOW)
    assert caught.value.code == "past_deadline"
