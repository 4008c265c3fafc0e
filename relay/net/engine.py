"""What all sessions of a process share: the loop, the clock, the buffers, and the end of each turn.

One receive buffer and one frame buffer serve every session and every plain socket (performance.md, section 5): a
callback fills one, its bytes are written or queued before it returns, and the next callback uses it again. Both have
room for a frame header before the payload, so that a header is packed in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from relay.protocol.limits import HEADER_SIZE, MAX_FRAME

if TYPE_CHECKING:
    from relay.net.connection import Connection
    from relay.net.mux import Mux

TICK: Final = 1.0
"""Seconds between two looks at the timers of all sessions."""


class Engine:
    """Shared by the sessions of one loop. `clock` gives monotonic seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self.loop = loop
        self.now = clock
        self.seen = clock()
        """When the callback that is running began: saves a clock call per event. Never a second old."""
        self.received = memoryview(bytearray(HEADER_SIZE + MAX_FRAME))
        """Plaintext of the session that is being read, from HEADER_SIZE on."""
        self.frame = memoryview(bytearray(MAX_FRAME))
        """The frame that is being built: header, then payload."""
        self.muxes: set[Mux] = set()
        self.closing: set[Connection] = set()
        """Connections that still say their last words."""
        self._dirty: list[Mux] = []
        self._timer: asyncio.TimerHandle | None = None

    def touch(self, mux: Mux) -> None:
        """`mux` has something in its outbox: it is written when the running callback calls `settle`."""
        if not mux.dirty:
            mux.dirty = True
            self._dirty.append(mux)

    def settle(self) -> None:
        """The end of a socket callback: write what it has left in the outboxes."""
        while self._dirty:
            mux = self._dirty.pop()
            mux.dirty = False
            mux.flush_in_turn()

    def start(self) -> None:
        """Begin to watch the timers of the sessions: keepalive, stalls, idle streams."""
        self._timer = self.loop.call_later(TICK, self._tick)

    async def close(self) -> None:
        """Stop the timers, and wait until every closing connection has said its last words: a process that ends before
        may reset them. Bounded; sessions are closed by their owners, before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.gather(*(connection.wait_closed() for connection in self.closing))

    def _tick(self) -> None:
        self._timer = self.loop.call_later(TICK, self._tick)
        now = self.now()
        for mux in list(self.muxes):
            mux.on_tick(now)
        self.settle()
