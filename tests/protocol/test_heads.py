"""HTTP heads: what is well-formed, what is refused, and that no head costs more than its length."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from relay.protocol.errors import BadHead
from relay.protocol.heads import MAX_FIELDS, MAX_HEAD, Fields, build, find_end, parse_request, parse_response


def request(*lines: str) -> bytes:
    return "\r\n".join(("GET / HTTP/1.1", *lines, "", "")).encode("latin-1")


def test_a_request() -> None:
    head = parse_request(request("Host: a:1", "X-Empty:", "X-Blank: \t ", "x-a:  b \tc\t ", "X-A: \xe9"))
    assert (head.method, head.target) == ("GET", "/")
    assert head.fields.items == (("host", "a:1"), ("x-empty", ""), ("x-blank", ""), ("x-a", "b \tc"), ("x-a", "\xe9"))


def test_a_response() -> None:
    head = parse_response(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\n\r\n")
    assert (head.status, head.fields.single("retry-after")) == (503, "5")
    assert parse_response(b"HTTP/1.1 200 \r\n\r\n").status == 200


@pytest.mark.parametrize(
    "line",
    [
        "X : a",
        " X: a",
        "\tfolded",
        ": a",
        "X",
        "",
        "X\xe9: a",
        "X: a\nY: b",
        "X: a\rY: b",
        "X: \0",
        "X: \x7f",
        "X(y): a",
    ],
)
def test_fields_that_two_parsers_could_read_apart(line: str) -> None:
    with pytest.raises(BadHead, match="not well-formed"):
        parse_request(request("Host: a", line, "Z: z"))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET /",
        b"GET / HTTP/1.0",
        b"GET / HTTP/2",
        b"get / HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b" GET / HTTP/1.1",
        b"GET /\xe9 HTTP/1.1",
        b"\nGET / HTTP/1.1",
        b"GET / HTTP/1.1\nX: y",
    ],
)
def test_request_lines_that_are_none(first: bytes) -> None:
    with pytest.raises(BadHead, match="request line"):
        parse_request(first + b"\r\n\r\n")


@pytest.mark.parametrize("first", [b"HTTP/1.1 200", b"HTTP/1.0 200 OK", b"HTTP/1.1 600 X", b"HTTP/1.1 20 X", b"200 OK"])
def test_status_lines_that_are_none(first: bytes) -> None:
    with pytest.raises(BadHead, match="status line"):
        parse_response(first + b"\r\n\r\n")


def test_the_number_of_fields_is_bounded() -> None:
    parse_request(request(*["X: y"] * MAX_FIELDS))
    with pytest.raises(BadHead, match="65 header fields"):
        parse_request(request(*["X: y"] * (MAX_FIELDS + 1)))


@pytest.mark.parametrize("piece", [1, 3, 100])
def test_the_end_is_found_however_it_is_cut(piece: int) -> None:
    head, behind = request("Host: a"), b"\0\1\2\r\n\r\n"
    buffer = bytearray()
    for start in range(0, len(head + behind), piece):
        buffer += (head + behind)[start : start + piece]
        assert find_end(buffer) == (len(head) if len(buffer) >= len(head) else 0)


def test_a_head_is_bounded() -> None:
    longest = b"x" * (MAX_HEAD - 4) + b"\r\n\r\n"
    assert find_end(longest) == MAX_HEAD
    assert find_end(longest[:-1]) == 0
    for too_long in (b"x" * MAX_HEAD, b"x" * (MAX_HEAD - 3) + b"\r\n\r\n"):
        with pytest.raises(BadHead, match="longer than 16384"):
            find_end(too_long)


@contextmanager
def cpu_budget(seconds: float) -> Iterator[None]:
    """Fail when this process has computed for so long: the clock of the wall does not matter."""

    def over(*_: object) -> None:
        pytest.fail(f"more than {seconds} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("blank", [" ", "\t", " \t"])
@pytest.mark.parametrize("value", ["{blanks}\0", "{blanks}a{blanks}\0", "a{blanks}b{blanks}\0"])
def test_no_head_costs_more_than_its_length(blank: str, value: str) -> None:
    """A run of blanks once cost quadratic time: 0.8 s for 16 KiB from a stranger. 100 such heads take 20 ms of CPU."""
    hostile = request("X:" + value.format(blanks=blank * (7_000 // len(blank))))
    with cpu_budget(5.0):
        for _ in range(100):
            with pytest.raises(BadHead):
                parse_request(hostile)


def test_fields_by_name() -> None:
    fields = Fields((("a", "1"), ("b", "Upgrade, Keep-Alive"), ("b", " x ,"), ("a", "2"), ("c", "3")))
    assert fields.all("a") == ["1", "2"]
    assert fields.single("c") == fields.optional("c") == "3"
    assert fields.optional("d") is None
    assert fields.tokens("b") == {"upgrade", "keep-alive", "x", ""}
    with pytest.raises(BadHead, match="a is there 2 times"):
        fields.optional("a")
    with pytest.raises(BadHead, match="d is there 0 times"):
        fields.single("d")


def test_building() -> None:
    assert build("GET / HTTP/1.1", [("Host", "a"), ("X", "")]) == b"GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n"
    for first, name, value in (
        ("GET / HTTP/1.1", "X", "a\r\nY: b"),
        ("GET / HTTP/1.1", "X", "\u0430\u0433\u0435\u043d\u0442"),
        ("GET / HTTP/1.1", "X y", "a"),
        ("GET /\r\nX: y HTTP/1.1", "X", "a"),
        ("GET /\u0430 HTTP/1.1", "X", "a"),
    ):
        with pytest.raises(BadHead, match="cannot be sent"):
            build(first, [(name, value)])
