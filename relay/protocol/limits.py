"""Every bound of the wire protocol, each with its reason. Times are seconds, sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass

HEADER_SIZE = 12
"""yamux specification, "Framing": version, type, flags, stream id, length."""

INITIAL_WINDOW = 256 * 1024
"""yamux specification, "Flow Control": every stream starts with this credit; more can be granted, not less."""

MAX_FRAME = 256 * 1024
"""Largest frame we send, header included: sixteen full TLS records (performance.md, section 5)."""

TLS_RECORD = 16 * 1024
"""Largest plaintext of a TLS record (RFC 8446, section 5.1)."""

MAX_STREAM_ID = 0xFFFF_FFFF
"""Ids have 32 bits; when they are used up a new session is dialled (faults.md R42)."""

MAX_WINDOW = 0xFFFF_FFFF
"""Credit is counted in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one session may cost us. A peer that goes beyond is refused or closed, never queued without bound."""

    max_streams: int = 1024
    """Streams open at once that the peer has opened; one more is refused with RST."""
    backlog: int = 256
    """Inbound streams that nobody has answered yet (libp2p/specs#547): one more is refused with RST."""
    max_window: int = 1024 * 1024
    """Above 1 MiB bulk gains under 15 % and latency under load pays in proportion (performance.md, section 4)."""
    growth_budget: int = 16 * 1024 * 1024
    """Credit above the initial windows that all streams of a session may hold together."""
    growth_interval: float = 0.010
    """A half window used up within this time, or within four round trips, doubles the window: a saturated host answers
    pings late, so the round trip alone would keep windows small on fast local links."""
    control_bytes: int = 64 * 1024
    """Control frames waiting because the peer does not read (Envoy 1.11.1: a limit of its own). What the peer makes us
    answer beyond ends the session; our own acts never fail for it."""
    resets: int = 200
    """Streams that the peer opened and reset unanswered, in `flood_period` (CVE-2023-44487, rapid reset), beyond one
    whole backlog: an honest peer that loses its users, or another link, resets all that it had waiting at once."""
    pings: int = 1000
    """Pings in `flood_period`; an honest peer sends one every `keepalive`."""
    flood_period: float = 10.0
    keepalive: float = 20.0
    """A ping this often: load balancers cut idle links at 60 s."""
    keepalive_answer: float = 15.0
    """Silence for so long after a ping means that the peer is dead (promise P7: 20 + 15 s)."""
    timer_slack: float = 5.0
    """A timer that fires later than this means that this process was stopped or starved: the peer's answer may lie
    unread in the socket, so it is asked again before it is called dead."""
