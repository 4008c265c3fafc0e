"""Whose turn it is to send when a session's link is the bottleneck: everybody's, one frame each, in order of waiting.

Small frames need not wait: while the link is blocked they gather in the outbox, which is written before the next turn
(design.md 3.1, fairness under load). They are bounded, and may not leave the waiting streams without a turn twice in a
row, so that neither kind starves the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from relay.net.channel import Channel
from relay.net.connection import Connection
from relay.net.engine import Engine


class Turns:
    """The streams that wait for `connection`. `resume(channel)` lets one send a frame, and does not raise."""

    def __init__(self, engine: Engine, connection: Connection, resume: Callable[[Channel], None]) -> None:
        self.owed = False
        """True when the last time that the link took bytes, none of the waiting streams could send."""
        self._engine = engine
        self._connection = connection
        self._resume = resume
        self._waiting: deque[Channel] = deque()
        self._scheduled = False

    def wait(self, channel: Channel) -> None:
        """Resume `channel` when the link takes bytes, in the next turn of the loop at the soonest."""
        self._waiting.append(channel)
        if not self._connection.blocked and not self._scheduled:
            self._scheduled = True
            self._engine.loop.call_soon(self._take_in_turn)

    def link_is_free(self) -> None:
        """The link has become free, and what was in the outbox has been written: now the others."""
        self.owed = bool(self._waiting) and not self._take()

    def _take_in_turn(self) -> None:
        self._scheduled = False
        self._take()
        self._engine.settle()

    def _take(self) -> int:
        """Let each that waits now send one frame, until the link is blocked; how many could."""
        waited = len(self._waiting)
        for served in range(waited):
            if self._connection.blocked:
                return served
            channel = self._waiting.popleft()
            channel.waiting = False
            self._resume(channel)
        return waited
