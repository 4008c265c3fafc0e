"""A string that does not show itself, and the log filter that masks the secrets which slip through anyway (P5)."""

import hmac
import logging
import re
import traceback
from typing import Final

MASK: Final = "********"
# Our own tokens are findable by their prefix (design.md, section 4); an Authorization value goes whatever it holds.
_TOKEN = re.compile(r"\b(tm[nacd]_)[0-9A-Za-z]{8,}")
_AUTHORIZATION = re.compile(
    r"(authorization['\"]?\s*[:=,]\s*(?:b?['\"])?(?:(?:bearer|basic|token)\s+)?)[^\s'\",;]+", re.IGNORECASE
)


def redact(text: str) -> str:
    """``text`` with every token of ours and every Authorization value masked."""
    return _AUTHORIZATION.sub(rf"\g<1>{MASK}", _TOKEN.sub(rf"\g<1>{MASK}", text))


class Secret:
    """Holds a secret value; only ``reveal`` gives it out. Compares in constant time; unhashable, not picklable."""

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not written anywhere")


class RedactingFilter(logging.Filter):
    """Masks secrets in a record's message, extra fields, stack and traceback. Belongs on the handler, so that
    records of every logger pass it."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage(), None
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        for name, value in record.__dict__.items():
            if isinstance(value, str):
                record.__dict__[name] = redact(value)
        return True
