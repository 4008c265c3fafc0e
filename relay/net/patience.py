"""How long a stream may do nothing, and how much may wait in a session, before a stream is given up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relay.net.channel import Channel

HALF_CLOSED_IDLE: Final = 300.0
"""Seconds that a half-closed stream may carry nothing (faults.md, R5)."""
QUEUE_BUDGET: Final = 4 * 1024 * 1024
"""Bytes that wait in a session, above each stream's first QUEUE_FREE (design.md 3.1)."""
QUEUE_FREE: Final = 64 * 1024
QUEUE_STALL: Final = 10.0
"""Seconds. Over the budget, only a stream whose queue has not moved for so long is reset (ADR 8)."""


def hopeless(channels: Iterable[Channel], now: float) -> list[Channel]:
    """The streams to reset: those that idle half-closed, and, while the queues are over the budget, those that have
    stalled, the longest first."""
    idle: list[Channel] = []
    queues: list[tuple[float, int, Channel]] = []
    for channel in channels:
        stream = channel.stream
        if not (stream.may_send and stream.may_receive) and now - channel.moved_at > HALF_CLOSED_IDLE:
            idle.append(channel)
        elif (excess := channel.queued - QUEUE_FREE) > 0:
            queues.append((channel.queue_moved_at, excess, channel))
    over = sum(excess for _, excess, _ in queues) - QUEUE_BUDGET
    for moved_at, excess, channel in sorted(queues, key=lambda queue: queue[0]):
        if over <= 0 or now - moved_at <= QUEUE_STALL:
            break
        idle.append(channel)
        over -= excess
    return idle
