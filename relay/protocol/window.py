"""Flow control of one stream in one direction: what the receiver has granted, and when it grants more.

Credit is per hop (design.md 3.1): whoever receives grants what it has passed on, never what it has only stored.
A window starts at yamux's 256 KiB, and doubles while half of it is used up within a few round trips.
"""

from __future__ import annotations

from relay.protocol.errors import LocalError
from relay.protocol.limits import INITIAL_WINDOW


class ReceiveWindow:
    """The receiver's side. Invariant: `credit + unreturned + (bytes the owner still holds) == size`."""

    __slots__ = ("credit", "last_grant", "size", "unreturned")

    def __init__(self, now: float) -> None:
        self.size = INITIAL_WINDOW
        self.credit = INITIAL_WINDOW
        """What the peer may still send."""
        self.unreturned = 0
        """What has been passed on and not been granted again yet."""
        self.last_grant = now

    def consume(self, count: int) -> bool:
        """The owner has passed on `count` bytes; True when at least half a window is to be returned. Raises LocalError
        for bytes that it was never given: they would be credit out of nothing."""
        unreturned = self.unreturned + count
        if unreturned + self.credit > self.size:
            raise LocalError(f"{count} bytes consumed, the stream holds {self.size - self.credit - self.unreturned}")
        self.unreturned = unreturned
        return unreturned >= self.size >> 1

    def growth(self, now: float, interval: float, limit: int) -> int:
        """By how much the window should grow: it doubles, up to `limit`, when half of it went within `interval`."""
        if now - self.last_grant > interval or self.size >= limit:
            return 0
        return min(self.size, limit - self.size)

    def grant(self, growth: int, now: float) -> int:
        """Return what was passed on, and `growth` more; the length of the WINDOW_UPDATE to send."""
        self.size += growth
        delta = self.unreturned + growth
        self.unreturned = 0
        self.credit += delta
        self.last_grant = now
        return delta
