"""The bytes that every measurement carries: any loss, shift or mix-up must show."""

import socket

import pytest

from benchmarks.traffic import HEAD_SIZE, Head, Mode, Pattern

PATTERN = Pattern()


def test_a_head_survives_its_encoding() -> None:
    head = Head(Mode.DOWN, length=1 << 40, stream=7, verified=True)
    assert Head.decode(head.encode()) == head
    assert len(head.encode()) == HEAD_SIZE


@pytest.mark.parametrize(
    "raw",
    [b"GET / HTTP/1.1\r\n", bytes(HEAD_SIZE), Head(Mode.UP, 0).encode(), Head(Mode.UP, 1).encode()[:4] + b"\x09" * 12],
)
def test_anything_else_is_not_a_head(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what it says is nobody's to read
        Head.decode(raw)


@pytest.mark.parametrize("shift", [1, 12, 16_384, 65_536, 262_144, 1 << 20])
def test_a_shifted_block_never_matches(shift: int) -> None:
    assert PATTERN.matching(PATTERN.at(shift, 16_384), 0) < 8


def test_bytes_of_another_stream_do_not_match() -> None:
    one, other = Head(Mode.UP, 1, stream=1), Head(Mode.UP, 1, stream=2)
    assert PATTERN.matching(PATTERN.at(one.start, 1000), other.start) < 8


def test_the_first_wrong_byte_is_found() -> None:
    data = bytearray(PATTERN.at(0, 1000))
    data[617] ^= 1
    assert PATTERN.matching(data, 0) == 617


def test_what_is_sent_is_the_pattern() -> None:
    one, other = socket.socketpair()
    with one, other:
        sent = PATTERN.send(one, 70_000, 50_000)
        assert PATTERN.matching(other.recv(sent, socket.MSG_WAITALL), 70_000) == sent == 50_000
