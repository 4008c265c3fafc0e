"""Two families of errors, ours and the peer's, and the GOAWAY codes that tell a peer why a session ends."""

from __future__ import annotations

from enum import IntEnum


class GoAwayCode(IntEnum):
    """Why a session ends. 0-2 are yamux's own; ours lie in a private range ("tm" in ASCII, then a number), and a
    foreign implementation reports them as an error. SPEC.md has the table."""

    NORMAL = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    TOKEN_REVOKED = 0x746D_0001
    TOKEN_EXPIRED = 0x746D_0002
    TOKEN_SCOPE = 0x746D_0003
    NODE_DISABLED = 0x746D_0004
    NODE_DELETED = 0x746D_0005
    STALE_EPOCH = 0x746D_0006
    RECORD_EXPIRED = 0x746D_0007
    SUPERSEDED = 0x746D_0008
    KEEPALIVE = 0x746D_0009
    WRITE_STALL = 0x746D_000A
    FLOOD = 0x746D_000B
    CERTIFICATE = 0x746D_000C


def describe_code(code: int) -> str:
    """The name of a GOAWAY code in lower case, or its number when it is a foreign one."""
    try:
        return GoAwayCode(code).name.lower()
    except ValueError:
        return f"code {code:#x}"


class ProtocolError(Exception):
    """Base of everything that this package raises."""


class LocalError(ProtocolError):
    """Our own code asked for something illegal: a bug on this side. Nothing was sent, nothing changed."""


class RemoteError(ProtocolError):
    """The peer broke the protocol. `code` is the GOAWAY code to close the session with."""

    code = GoAwayCode.PROTOCOL_ERROR


class FloodError(RemoteError):
    """The peer spent more than one of the budgets of `Limits`."""

    code = GoAwayCode.FLOOD


class KeepaliveTimeout(RemoteError):
    """The peer was silent for the whole keepalive answer time (promise P7)."""

    code = GoAwayCode.KEEPALIVE


class BadHead(RemoteError):
    """An HTTP head that is not well-formed, too long, or not what was expected (RFC 9112, sections 2-5)."""
