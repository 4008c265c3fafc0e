"""The upgrade that begins a session: row 1 of the admission table, and the answer."""

import pytest

from relay.protocol.errors import BadHead
from relay.protocol.upgrade import (
    AGENT,
    MAX_EPOCH,
    RELAY,
    Accepted,
    UpgradeRequest,
    decode_answer,
    decode_request,
)

RELAY_FIELDS = {
    "Host": "node-b:9443",
    "Connection": "Upgrade",
    "Upgrade": "yamux",
    "Authorization": "Bearer secret",
    "TunnelMesh-Node": "node-a",
    "TunnelMesh-Epoch": "7",
}


def head(first: str = "GET /relay HTTP/1.1", *more: str, **changed: str | None) -> bytes:
    """A good request with fields changed (underscores stand for hyphens) or, when None, left out."""
    fields = dict(RELAY_FIELDS)
    for name, value in changed.items():
        key = name.replace("_", "-")
        fields.pop(key) if value is None else fields.update({key: value})
    lines = [first, *(f"{name}: {value}" for name, value in fields.items()), *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


REQUESTS = [
    UpgradeRequest(RELAY, "node-b:9443", "secret", "node-a", 7),
    UpgradeRequest(RELAY, "node-b:9443", None, "node-a", MAX_EPOCH),
    UpgradeRequest(AGENT, "[::1]:7443", "secret", "agent-1"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=["relay", "no token", "agent"])
def test_what_is_sent_is_read(request_: UpgradeRequest) -> None:
    assert decode_request(request_.encode()) == request_


def test_a_request_never_shows_its_token() -> None:
    assert "secret" not in repr(REQUESTS[0])
    assert "node-a" in repr(REQUESTS[0])


def test_field_names_and_tokens_are_case_insensitive() -> None:
    loose = head(Connection="keep-alive, UPGRADE", Upgrade="Yamux", Authorization="bearer secret")
    assert decode_request(loose.replace(b"TunnelMesh", b"TUNNELMESH")) == REQUESTS[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (head("POST /relay HTTP/1.1"), "method POST"),
        (head("GET /relay/ HTTP/1.1"), "no such path"),
        (head("GET /relay?x HTTP/1.1"), "no such path"),
        (head("GET http://node-b/relay HTTP/1.1"), "no such path"),
        (head(Connection=None), "Connection"),
        (head(Connection="keep-alive"), "Connection"),
        (head(Upgrade=None), "upgrade is there 0"),
        (head(Upgrade="websocket"), "Upgrade is not"),
        (head("GET /relay HTTP/1.1", "Upgrade: yamux"), "upgrade is there 2"),
        (head(Host=None), "host is there 0"),
        (head("GET /relay HTTP/1.1", "Host: other"), "host is there 2"),
        (head("GET /relay HTTP/1.1", "Content-Length: 0"), "no body"),
        (head("GET /relay HTTP/1.1", "Transfer-Encoding: chunked"), "no body"),
        (head(Authorization="Basic c2VjcmV0"), "not a bearer"),
        (head(Authorization="Bearer"), "not a bearer"),
        (head(Authorization="Bearer a b"), "not a bearer"),
        (head("GET /relay HTTP/1.1", "Authorization: Bearer b"), "authorization is there 2"),
        (head(TunnelMesh_Node=None), "tunnelmesh-node is there 0"),
        (head("GET /relay HTTP/1.1", "TunnelMesh-Node: node-c"), "tunnelmesh-node is there 2"),
        (head("GET /agent HTTP/1.1"), "tunnelmesh-agent is there 0"),
        (head(TunnelMesh_Epoch=None), "tunnelmesh-epoch is there 0"),
        *[
            (head(TunnelMesh_Epoch=text), "not a number of 0 to")
            for text in ("", "-1", "+1", "1.0", "0x1", "1 2", "\xb2", "9" * 5000, str(MAX_EPOCH + 1))
        ],
    ],
)
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadHead, match=message):
        decode_request(data)


def test_the_answer() -> None:
    assert decode_answer(Accepted("node-b", 9).encode()) == Accepted("node-b", 9)
    assert decode_answer(b"HTTP/1.1 503 Service Unavailable\r\n\r\n") is None


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        Accepted("node-b", 9).encode().replace(b"yamux", b"h2c"),
        Accepted("node-b", 9).encode().replace(b"Epoch: 9", b"Epoch: x"),
        Accepted("node-b", 9).encode().replace(b"TunnelMesh-Node", b"TunnelMesh-Nod"),
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    ],
)
def test_answers_that_are_none(data: bytes) -> None:
    with pytest.raises(BadHead):
        decode_answer(data)
