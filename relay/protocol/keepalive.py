"""Is the peer alive? A ping every 20 s, and silence for 15 s after it means that it is dead (promise P7).

Theory. Any byte proves as much as the answer would: on a slow link the answer queues behind data. So the peer is
judged by its silence, and a ping is there to be answered when nothing else is said. A further ping goes out before the
last one is answered only if the peer has spoken since and fallen silent again.
"""

from __future__ import annotations

from relay.protocol.errors import KeepaliveTimeout
from relay.protocol.limits import MAX_WINDOW, Limits


class Keepalive:
    """One end's view of the other. Times are monotonic seconds, given by the caller."""

    __slots__ = ("_asked", "_limits", "_next_ping", "_ping_id", "heard", "rtt")

    def __init__(self, limits: Limits, now: float) -> None:
        self.heard = now
        """When the peer last sent a byte."""
        self.rtt: float | None = None
        """Seconds of the newest ping's round trip; None before the first answer."""
        self._limits = limits
        self._ping_id = 0
        self._asked: float | None = None
        self._next_ping = now

    @property
    def deadline(self) -> float:
        """When `due` wants to be called next: always later than the call before."""
        if self._asked is None:
            return self._next_ping
        return max(self._asked, self.heard) + self._limits.keepalive_answer

    def due(self, now: float) -> int | None:
        """The id of a ping to send now, or None. Raises KeepaliveTimeout when the peer has been silent for too long;
        not when this call comes late: this process has slept, and the answer may lie unread in the socket."""
        late = now - self.deadline
        if late < 0:
            return None
        silent = self._asked is not None and self.heard <= self._asked
        if silent and late <= self._limits.timer_slack:
            raise KeepaliveTimeout(f"nothing received for {now - self.heard:.0f} s")
        self._ping_id = (self._ping_id + 1) & MAX_WINDOW
        self._asked = now
        self._next_ping = now + self._limits.keepalive
        return self._ping_id

    def answered(self, ping_id: int, now: float) -> None:
        """An answer has come; one that was not asked for, or is not for the newest ping, is ignored."""
        if self._asked is not None and ping_id == self._ping_id:
            self.rtt = now - self._asked
            self._asked = None
