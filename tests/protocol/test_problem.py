"""Refusals, written and read."""

import json

import pytest

from relay.protocol.errors import BadHead
from relay.protocol.heads import find_end, parse_response
from relay.protocol.problem import MAX_BODY, TITLES, Problem, body_length, decode


def cut(answer: bytes) -> tuple[bytes, bytes]:
    end = find_end(answer)
    return answer[:end], answer[end:]


@pytest.mark.parametrize("status", TITLES)
@pytest.mark.parametrize("detail", ["", "no token; run: issue_token"])
@pytest.mark.parametrize("retry_after", [None, 0, 30])
def test_what_is_sent_is_read(status: int, detail: str, retry_after: int | None) -> None:
    problem = Problem(status, "some_code", detail, retry_after)
    head, body = cut(problem.encode())
    assert body_length(head) == len(body)
    assert decode(head, body) == problem


def test_the_document() -> None:
    head, body = cut(Problem(401, "unauthenticated").encode())
    assert json.loads(body) == {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "code": "unauthenticated",
    }
    fields = parse_response(head).fields
    assert fields.single("content-type") == "application/problem+json"
    assert fields.single("www-authenticate") == "Bearer"
    assert fields.single("connection") == "close"


def test_a_refusal_with_a_status_of_its_own_is_passed_on() -> None:
    head, body = cut(b"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n")
    problem = decode(head, body)
    assert problem == Problem(418, "refused")
    assert problem.encode().startswith(b"HTTP/1.1 418 Refused\r\n")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"7",
        b"null",
        b'"code"',
        b"{}",
        b'{"code": null}',
        b'{"code": 7}',
        b'{"code": "Bad Code"}',
        b'{"code": "bad\\ncode"}',
        b'{"code": "ok", "detail": 7}',
        b'{"code": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_not_ours_is_a_refusal_all_the_same(body: bytes) -> None:
    assert decode(b"HTTP/1.1 503 Busy\r\n\r\n", body) == Problem(503, "refused")


def test_what_a_peer_wrote_is_one_printable_line() -> None:
    body = json.dumps({"code": "bad", "detail": "a\nb\u202ec\ud800\u200bd"}).encode()
    assert decode(b"HTTP/1.1 503 Busy\r\n\r\n", body).detail == "a?b?c??d"


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT", "9" * 5000, "1234567"])
def test_a_retry_after_that_is_no_number_of_seconds_is_ignored(text: str) -> None:
    assert decode(f"HTTP/1.1 503 Busy\r\nRetry-After: {text}\r\n\r\n".encode(), b"").retry_after is None


def test_the_body_is_bounded() -> None:
    assert body_length(b"HTTP/1.1 503 Busy\r\n\r\n") == 0
    assert body_length(b"HTTP/1.1 503 Busy\r\nContent-Length: 999999\r\n\r\n") == MAX_BODY


@pytest.mark.parametrize(
    "fields", ["Content-Length:", "Content-Length: x", "Content-Length: -1", "Content-Length: 1\r\nContent-Length: 1"]
)
def test_a_length_that_is_none_is_refused(fields: str) -> None:
    with pytest.raises(BadHead):
        body_length(f"HTTP/1.1 503 Busy\r\n{fields}\r\n\r\n".encode())


def test_not_a_response() -> None:
    with pytest.raises(BadHead):
        decode(b"SSH-2.0\r\n\r\n", b"")
