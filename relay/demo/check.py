"""The end-to-end check of a tunnel: every byte through an entry to the built-in service and back is compared."""

from __future__ import annotations

import hashlib
import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from relay.demo.service import CHUNK, GREETING, random_chunks
from tunnelmesh.common.errors import DomainError

TIMEOUT_SECONDS = 30.0
SIZE = 8 * 1024 * 1024
Entry = tuple[str, int]


class Mismatch(DomainError):
    """What came through the tunnel is not what was sent."""


@dataclass(frozen=True, slots=True)
class Check:
    """One way of using the tunnel: ``run`` raises `Mismatch` or OSError."""

    name: str
    bytes_up: int
    bytes_down: int
    run: Callable[[Entry], None]


def checks() -> list[Check]:
    """The checks of `demo --once`, each with content of its own."""
    seed = random.SystemRandom().randrange(2**32)
    return [
        Check("greeting", 0, len(GREETING), greeting),
        Check("download", 0, SIZE, partial(download, seed=seed, size=SIZE)),
        Check("upload", SIZE, 0, partial(upload, seed=seed + 1, size=SIZE)),
        Check("exchange", SIZE, SIZE, partial(exchange, seed=seed + 2, size=SIZE)),
        Check("half-close", SIZE, SIZE, partial(half_close, seed=seed + 4, size=SIZE)),
    ]


def greeting(entry: Entry) -> None:
    """GET / answers with the greeting."""
    with request(entry, "GET", "/") as answer:
        answer.expect([GREETING], what="greeting")


def download(entry: Entry, *, seed: int, size: int) -> None:
    """The service sends ``size`` random bytes."""
    with request(entry, "GET", f"/bytes?n={size}&seed={seed}") as answer:
        answer.expect(random_chunks(seed, size), what="download")


def upload(entry: Entry, *, seed: int, size: int) -> None:
    """The service receives ``size`` random bytes and answers with their SHA-256."""
    with request(entry, "POST", "/digest", body=size) as answer:
        answer.send(random_chunks(seed, size))
        answer.expect([digest_of(random_chunks(seed, size))], what="upload")


def exchange(entry: Entry, *, seed: int, size: int) -> None:
    """Both directions carry ``size`` different random bytes at the same time."""
    with request(entry, "POST", f"/exchange?n={size}&seed={seed}", body=size) as answer:
        sender = threading.Thread(target=answer.send, args=(random_chunks(seed + 1, size),), daemon=True)
        sender.start()
        answer.expect(random_chunks(seed, size), what="exchange, down")
        answer.expect([digest_of(random_chunks(seed + 1, size))], what="exchange, up")
        sender.join(TIMEOUT_SECONDS)


def half_close(entry: Entry, *, seed: int, size: int) -> None:
    """The user sends ``size`` bytes and ends its half; the service answers only then, and ends the other half."""
    with request(entry, "POST", f"/after-eof?n={size}&seed={seed}", body=size) as answer:
        answer.send(random_chunks(seed + 1, size))
        answer.socket.shutdown(socket.SHUT_WR)
        answer.expect(random_chunks(seed, size), what="answer after half-close")
        answer.expect([digest_of(random_chunks(seed + 1, size))], what="upload before half-close")
        answer.expect_eof()


def digest_of(chunks: Iterable[bytes]) -> bytes:
    """SHA-256 in hexadecimal, as /digest and /exchange answer it."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest().encode()


class Answer:
    """A request in flight; its answer's head is read with the first expectation."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._stream = connection.makefile("rb", buffering=CHUNK)
        self._head_read = False

    def send(self, chunks: Iterable[bytes]) -> None:
        """Send the request's body."""
        for chunk in chunks:
            self.socket.sendall(chunk)

    def expect(self, chunks: Iterable[bytes], *, what: str) -> None:
        """Read exactly these bytes; raises `Mismatch` at the first chunk that differs."""
        if not self._head_read:
            self._read_head(what)
        position = 0
        for chunk in chunks:
            got = self._stream.read(len(chunk))
            if got != chunk:
                raise Mismatch(
                    "mismatch", f"{what}: the bytes differ after byte {position} ({len(got)} of {len(chunk)} came)"
                )
            position += len(chunk)

    def next(self) -> None:
        """Expect the head of another answer."""
        self._head_read = False

    def expect_eof(self) -> None:
        """Read the clean end of the service's half."""
        if extra := self._stream.read(1):
            raise Mismatch("mismatch", f"expected the end of the stream, found {extra!r}")

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
        self.socket.close()

    def _read_head(self, what: str) -> None:
        status = self._stream.readline().split()
        while self._stream.readline().strip():
            pass
        self._head_read = True
        if status[1:2] != [b"200"]:
            raise Mismatch("mismatch", f"{what}: expected an answer with status 200, found {b' '.join(status)!r}")


@contextmanager
def request(entry: Entry, method: str, path: str, *, body: int = 0) -> Iterator[Answer]:
    """Send a request's head to the service behind ``entry``; a ``body`` of that many bytes is the caller's to send."""
    connection = socket.create_connection(entry, timeout=TIMEOUT_SECONDS)
    answer = Answer(connection)
    try:
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: service\r\nContent-Length: {body}\r\n\r\n".encode())
        yield answer
    finally:
        answer.close()
