"""Ends of validity as an operator writes them: `90d`, `12h`, a date, a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from django.utils.translation import gettext as _

from tunnelmesh.common.errors import Invalid

_SPAN = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_deadline(text: str, *, now: datetime) -> datetime:
    """The moment that `text` means, UTC and after `now`; raises `Invalid` for anything else."""
    try:
        moment = _parse(text, now)
    except (ValueError, OverflowError):
        raise Invalid("bad_deadline", _("%(text)r is no end of validity") % {"text": text}, hint=_grammar()) from None
    if moment <= now:
        values = {"text": text, "now": f"{now:%Y-%m-%dT%H:%MZ}"}
        raise Invalid("past_deadline", _("%(text)r is not in the future (now: %(now)s)") % values, hint=_grammar())
    return moment


def _grammar() -> str:
    return _(
        "Write a span (90d, 12h, 30m), a date (2027-01-31, its beginning in UTC) or a time (2027-01-31T12:00+00:00)."
    )


def _parse(text: str, now: datetime) -> datetime:
    if span := _SPAN.fullmatch(text):
        return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
