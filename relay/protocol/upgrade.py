"""The HTTP/1.1 upgrade that begins a session (RFC 9110, section 7.8; design.md, section 3).

`GET /relay` (a node) or `GET /agent` (an agent), `Upgrade: yamux`, a bearer token. The answer is 101 or a problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from relay.protocol.errors import BadHead
from relay.protocol.heads import Fields, build, parse_request, parse_response

PROTOCOL: Final = "yamux"
RELAY: Final = "/relay"
AGENT: Final = "/agent"

MAX_EPOCH: Final = 2**63 - 1
"""Epochs are BIGINT in the database."""


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """What a dialler claims. Nothing in it has been verified."""

    path: str
    host: str
    token: str | None
    """The bearer token, or None when there is no Authorization. Never logged."""
    name: str
    """The claimed node id or agent id; its grammar has not been checked."""
    epoch: int | None = None
    """The caller's node epoch; only at /relay."""

    def __repr__(self) -> str:
        return f"UpgradeRequest({self.path}, name={self.name!r}, epoch={self.epoch})"

    def encode(self) -> bytes:
        """The request head."""
        fields = [("Host", self.host), ("Connection", "Upgrade"), ("Upgrade", PROTOCOL)]
        if self.token is not None:
            fields.append(("Authorization", f"Bearer {self.token}"))
        fields.append((_NAME_FIELD[self.path], self.name))
        if self.epoch is not None:
            fields.append(("TunnelMesh-Epoch", str(self.epoch)))
        return build(f"GET {self.path} HTTP/1.1", fields)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the acceptor says of itself in the 101; the dialler checks it."""

    node: str
    epoch: int

    def encode(self) -> bytes:
        """The answer's head."""
        fields = [
            ("Connection", "Upgrade"),
            ("Upgrade", PROTOCOL),
            ("TunnelMesh-Node", self.node),
            ("TunnelMesh-Epoch", str(self.epoch)),
        ]
        return build("HTTP/1.1 101 Switching Protocols", fields)


_NAME_FIELD: Final = {RELAY: "TunnelMesh-Node", AGENT: "TunnelMesh-Agent"}


def decode_request(head: bytes | bytearray) -> UpgradeRequest:
    """Row 1 of the admission table: heads present once, well-formed. Raises BadHead."""
    request = parse_request(head)
    if request.method != "GET":
        raise BadHead(f"method {request.method}, expected GET")
    if request.target not in _NAME_FIELD:
        raise BadHead("no such path; sessions begin at /relay or /agent")
    fields = request.fields
    _check_upgrade(fields)
    if fields.all("content-length") or fields.all("transfer-encoding"):
        raise BadHead("an upgrade request has no body")
    return UpgradeRequest(
        path=request.target,
        host=fields.single("host"),
        token=_bearer(fields.optional("authorization")),
        name=fields.single(_NAME_FIELD[request.target].lower()),
        epoch=_epoch(fields.single("tunnelmesh-epoch")) if request.target == RELAY else None,
    )


def decode_answer(head: bytes | bytearray) -> Accepted | None:
    """The acceptor's identity in a 101; None when the answer is another one (a problem). Raises BadHead."""
    response = parse_response(head)
    if response.status != 101:
        return None
    _check_upgrade(response.fields)
    return Accepted(response.fields.single("tunnelmesh-node"), _epoch(response.fields.single("tunnelmesh-epoch")))


def _check_upgrade(fields: Fields) -> None:
    if "upgrade" not in fields.tokens("connection"):
        raise BadHead("Connection does not say Upgrade")
    if fields.single("upgrade").lower() != PROTOCOL:
        raise BadHead(f"Upgrade is not {PROTOCOL}")


def _bearer(value: str | None) -> str | None:
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token or " " in token:
        raise BadHead("Authorization is not a bearer token")
    return token


def _epoch(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= MAX_EPOCH):
        raise BadHead("TunnelMesh-Epoch is not a number of 0 to 2^63-1")
    return int(text)
