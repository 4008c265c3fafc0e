"""One result of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """PASS: right. WARN: works, but look at it. FAIL: will not work or must not. SKIP: not looked at, and why."""

    PASS = "PASS"  # noqa: S105
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "SKIP"


@dataclass(frozen=True, slots=True)
class Finding:
    """``check`` is a stable name, most often the key of the configuration that it judges; ``hint`` the next step."""

    outcome: Outcome
    check: str
    text: str
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def passed(check: str, text: str) -> Finding:
    return Finding(Outcome.PASS, check, text)


def warned(check: str, text: str, hint: str) -> Finding:
    return Finding(Outcome.WARN, check, text, hint)


def failed(check: str, text: str, hint: str) -> Finding:
    return Finding(Outcome.FAIL, check, text, hint)


def skipped(check: str, text: str, hint: str = "") -> Finding:
    return Finding(Outcome.SKIP, check, text, hint)
