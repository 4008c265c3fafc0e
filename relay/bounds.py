"""From the bounds of a configuration to those of the protocol and of the shell."""

from __future__ import annotations

from relay.net.backoff import Backoff
from relay.net.dialer import DialTimeouts
from relay.net.engine import TICK
from relay.net.listener import DoorLimits
from relay.protocol.limits import Limits
from tunnelmesh.conf.schema import ServerLimits, SessionLimits


def session_limits(limits: SessionLimits) -> Limits:
    """What one session may cost."""
    return Limits(
        max_streams=limits.max_streams,
        backlog=limits.backlog,
        resets=limits.resets,
        # Timers are looked at once a TICK, so each is a tick shorter: the sum of both is a promise (P7).
        keepalive=limits.keepalive - TICK,
        keepalive_answer=limits.keepalive_answer - TICK,
    )


def dial_timeouts(limits: SessionLimits) -> DialTimeouts:
    """How long each step of dialling a session may take."""
    return DialTimeouts(connect=limits.connect, tls=limits.handshake, upgrade=limits.upgrade)


def backoff(limits: SessionLimits) -> Backoff:
    """When to dial again."""
    return Backoff(base=limits.reconnect_first, cap=limits.reconnect_longest)


def door_limits(limits: ServerLimits) -> DoorLimits:
    """What strangers may cost."""
    return DoorLimits(
        deadline=limits.upgrade,
        strangers=limits.unauthenticated,
        strangers_per_address=limits.unauthenticated_per_address,
    )
