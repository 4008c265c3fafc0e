"""What a peer may make us do for nothing: one counter and one limit for each kind of flood (faults.md R41, R42)."""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.protocol.errors import FloodError
from relay.protocol.limits import HEADER_SIZE, Limits


@dataclass(slots=True)
class Budget:
    """How often a peer may do something in a period: a fixed window, so that it costs two numbers."""

    limit: int
    period: float
    spent: int = 0
    since: float = field(default=float("-inf"))

    def spend(self, now: float) -> bool:
        """Count one act at `now`; False when the budget of the current period is used up."""
        if now - self.since >= self.period:
            self.since, self.spent = now, 0
        self.spent += 1
        return self.spent <= self.limit


class FloodGuard:
    """The budgets of one session. Each method raises FloodError, before anything has been done for the peer."""

    __slots__ = ("_limits", "_pings", "_resets")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pings = Budget(limits.pings, limits.flood_period)
        self._resets = Budget(limits.backlog + limits.resets, limits.flood_period)

    def ping(self, now: float) -> None:
        """The peer asks for an answer."""
        if not self._pings.spend(now):
            raise FloodError(f"{self._pings.spent} pings in {self._limits.flood_period} s")

    def reset(self, now: float) -> None:
        """The peer resets a stream that it has opened and that nobody has answered yet."""
        if not self._resets.spend(now):
            raise FloodError(f"{self._resets.spent} streams opened and reset in {self._limits.flood_period} s")

    def answer(self, waiting: int) -> None:
        """The peer makes us send a control frame while `waiting` bytes of them have not been taken for writing."""
        if waiting + HEADER_SIZE > self._limits.control_bytes:
            raise FloodError(f"{waiting} bytes of control frames wait for a peer that does not read")
