"""The CONNECT head of a stream, and its answer."""

import pytest

from relay.protocol.connect import OK, ConnectRequest, accepts, decode_request, split_authority
from relay.protocol.errors import BadHead

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


REQUESTS = [
    ConnectRequest("db.internal", 5432),
    ConnectRequest("10.0.0.7", 65535, agent="agent-1"),
    ConnectRequest("2001:db8::1", 1, agent="agent-1", traceparent=TRACE),
    ConnectRequest("a_b-c.d_", 80),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_next_hop_keeps_all_but_the_agent(request_: ConnectRequest) -> None:
    onwards = request_.towards("agent-9")
    assert (onwards.agent, onwards.towards(request_.agent)) == ("agent-9", request_)


@pytest.mark.parametrize("padding", [0, 1000])
def test_heads_are_judged_alike_whether_remembered_or_not(padding: int) -> None:
    field = "X: " + "x" * padding
    for _ in range(2):
        assert decode_request(head("db:5432", "db:5432", field)) == ConnectRequest("db", 5432)
        with pytest.raises(BadHead):
            decode_request(head("db:5432", "other:5432", field))


@pytest.mark.parametrize("request_", REQUESTS)
def test_what_is_sent_is_read(request_: ConnectRequest) -> None:
    assert decode_request(request_.encode()) == request_


def head(target: str = "db:5432", host: str | None = None, *more: str, method: str = "CONNECT") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {target if host is None else host}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (head(method="GET"), "method GET"),
        (head("db:5432", "other:5432"), "Host differs"),
        (head("db:5432", ""), "Host differs"),
        (head("db:5432", "db:5432", "Host: db:5432"), "host is there 2"),
        (head("db:5432", "db:5432", "Content-Length: 5"), "no body"),
        (head("db:5432", "db:5432", "Transfer-Encoding: chunked"), "no body"),
        (head("db:5432", "db:5432", "TunnelMesh-Agent: a", "TunnelMesh-Agent: b"), "tunnelmesh-agent is there 2"),
        (head("db:5432", "db:5432", f"Traceparent: {TRACE}", f"Traceparent: {TRACE}"), "traceparent is there 2"),
    ],
)
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadHead, match=message):
        decode_request(data)


def test_host_is_compared_without_case() -> None:
    assert decode_request(head("DB:5432", "db:5432")).host == "DB"


@pytest.mark.parametrize("trace", ["", "00", TRACE.upper(), TRACE + "-x", "x" * 9000])
def test_a_trace_that_is_none_is_dropped(trace: str) -> None:
    assert decode_request(head("db:5432", "db:5432", f"Traceparent: {trace}")).traceparent is None


@pytest.mark.parametrize(
    "text",
    [
        "db",
        "db:",
        ":80",
        "db:0",
        "db:080",
        "db:65536",
        "db:99999",
        "db:80 ",
        "db:+80",
        "db:\u0661",
        "-db:80",
        "db-:80",
        "db.:80",
        "db..:80",
        "user@db:80",
        "db/:80",
        "::1:80",
        "[::1]",
        "[]:80",
        "[db]:80",
        "[abc]:80",
        "[10.0.0.1]:80",
        "[:::1]:80",
        "[fe80::1%eth0]:80",
        "[::1]x:80",
        "a" * 254 + ":80",
    ],
)
def test_targets_that_are_none(text: str) -> None:
    with pytest.raises(BadHead, match="the target"):
        split_authority(text)


def test_the_longest_name() -> None:
    assert split_authority("a" * 253 + ":80") == ("a" * 253, 80)


def test_a_target_that_cannot_stand_in_a_head_is_not_sent() -> None:
    with pytest.raises(BadHead):
        ConnectRequest("db\r\nX: y", 80).encode()


def test_any_2xx_opens_the_stream() -> None:
    assert accepts(OK)
    assert accepts(b"HTTP/1.1 299 \r\n\r\n")
    assert not accepts(b"HTTP/1.1 300 \r\n\r\n")
    assert not accepts(b"HTTP/1.1 101 \r\n\r\n")
