"""The HTTP CONNECT head with which each stream begins (RFC 9110, section 9.3.6), and its answer.

The authority is the target, `host:port`, as the agent will dial it. Between nodes `TunnelMesh-Agent` names the agent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

from relay.protocol.errors import BadHead
from relay.protocol.heads import build, parse_request, parse_response

OK: Final = b"HTTP/1.1 200 OK\r\n\r\n"
"""The answer when the target has been reached; bytes of the target follow at once."""

_AUTHORITY: Final = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z](?:[0-9A-Za-z._-]{0,251}[0-9A-Za-z_])?)):([1-9][0-9]{0,4})"
)
REMEMBERED: Final = 512
"""Heads up to this length are remembered, and as many of them at most: those of an entry are all alike, and parsing and
building them was a sixth of a node's work for a new connection."""

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """Where a stream wants to go."""

    host: str
    """A host name or a literal address, without brackets."""
    port: int
    agent: str | None = None
    """The agent that shall dial; only between nodes."""
    traceparent: str | None = None
    """W3C Trace Context, passed on as it came; one that is not well-formed is dropped."""

    @property
    def authority(self) -> str:
        """`host:port`, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def towards(self, agent: str | None) -> ConnectRequest:
        """The same for the next hop: to the node that holds `agent`, or to the agent itself."""
        return ConnectRequest(self.host, self.port, agent, self.traceparent)

    def encode(self) -> bytes:
        """The request head."""
        return _encode(self)


@lru_cache(maxsize=REMEMBERED)
def _encode(request: ConnectRequest) -> bytes:
    fields = [("Host", request.authority)]
    if request.agent is not None:
        fields.append(("TunnelMesh-Agent", request.agent))
    if request.traceparent is not None:
        fields.append(("Traceparent", request.traceparent))
    return build(f"CONNECT {request.authority} HTTP/1.1", fields)


def decode_request(head: bytes | bytearray) -> ConnectRequest:
    """Parse and judge a CONNECT head. Raises BadHead; a body is not announced, and Host equals the authority (RFC 9112,
    section 3.2.3)."""
    return _remembered(bytes(head)) if len(head) <= REMEMBERED else _decode(head)


def _decode(head: bytes | bytearray) -> ConnectRequest:
    request = parse_request(head)
    fields = request.fields
    if request.method != "CONNECT":
        raise BadHead(f"method {request.method}, expected CONNECT")
    if fields.all("content-length") or fields.all("transfer-encoding"):
        raise BadHead("a CONNECT request has no body")
    host, port = split_authority(request.target)
    if fields.single("host").lower() != request.target.lower():
        raise BadHead("Host differs from the target")
    trace = fields.optional("traceparent")
    if trace is not None and not _TRACEPARENT.fullmatch(trace):
        trace = None
    return ConnectRequest(host, port, fields.optional("tunnelmesh-agent"), trace)


_remembered = lru_cache(maxsize=REMEMBERED)(_decode)


def accepts(head: bytes | bytearray) -> bool:
    """Whether an answer's head opens the stream: any 2xx does (RFC 9110, section 9.3.6). Raises BadHead."""
    return 200 <= parse_response(head).status < 300


def split_authority(text: str) -> tuple[str, int]:
    """`host:port` taken apart, brackets removed. Raises BadHead."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise BadHead("the target is not host:port")
    if match[1] is None:
        return match[2], int(match[3])
    try:
        IPv6Address(match[1])
    except ValueError:
        raise BadHead("the target's brackets hold no IPv6 address") from None
    return match[1], int(match[3])
