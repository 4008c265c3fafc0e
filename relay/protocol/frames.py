"""yamux frame headers (https://github.com/hashicorp/yamux/blob/master/spec.md, "Framing"): pack, unpack, judge."""

from __future__ import annotations

import struct
from typing import Final

from relay.protocol.errors import RemoteError

HEADER: Final = struct.Struct(">III")
"""Word, stream id, length; big endian. The word is version, type and flags (8, 8, 16 bits): 0 for plain data."""

DATA: Final = 0
WINDOW_UPDATE: Final = 1
PING: Final = 2
GO_AWAY: Final = 3

SYN: Final = 1
ACK: Final = 2
FIN: Final = 4
RST: Final = 8

VERSION: Final = 0

LEGAL: Final = frozenset(
    {
        (kind, flags)
        for kind in (DATA, WINDOW_UPDATE)
        for flags in (0, SYN, ACK, FIN, RST, SYN | FIN, ACK | FIN, ACK | RST)
    }
    | {(PING, SYN), (PING, ACK), (GO_AWAY, 0)}
)
"""Types with the flags they may carry. A stream's frame may open, acknowledge, half-close or reset; it cannot open and
acknowledge, open and reset, or half-close and reset at once."""


def pack(kind: int, flags: int, stream_id: int, length: int) -> bytes:
    """One header of 12 bytes."""
    return HEADER.pack(kind << 16 | flags, stream_id, length)


def split(word: int, stream_id: int) -> tuple[int, int]:
    """Type and flags of a header. Raises RemoteError unless they, the version and the stream id are legal together,
    whatever the state of the session."""
    version, kind, flags = word >> 24, word >> 16 & 0xFF, word & 0xFFFF
    if version != VERSION:
        raise RemoteError(f"frame version {version}, expected {VERSION}")
    if (kind, flags) not in LEGAL:
        raise RemoteError(f"frame type {kind} with flags {flags:#x}")
    if (stream_id == 0) != (kind >= PING):
        raise RemoteError(f"frame type {kind} on stream {stream_id}")
    return kind, flags
