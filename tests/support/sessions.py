"""Stand-ins for a session, for tests of those who only keep sessions."""

from __future__ import annotations

from typing import Any

from relay.protocol.errors import GoAwayCode


class FakeMux:
    """What a table of sessions sees of one. `closes` is what it was closed with."""

    def __init__(self, *, active: int = 0, draining: bool = False) -> None:
        self.active = active
        self.draining = draining
        self.closed = False
        self.closes: list[GoAwayCode] = []

    @property
    def can_open(self) -> bool:
        return not self.closed and not self.draining

    def close(self, code: GoAwayCode, reason: str) -> None:
        self.closed = True
        self.closes.append(code)


def as_mux(fake: FakeMux) -> Any:
    """For the type checker."""
    return fake
