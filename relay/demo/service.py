"""The private service behind the demo's agent: a small HTTP server whose answers can be checked byte for byte.

Run as ``python -m relay.demo.service PORT``. It listens on 127.0.0.1 only and trusts everybody who reaches it.
"""

from __future__ import annotations

import hashlib
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from relay.demo.ports import LOOPBACK

CHUNK = 64 * 1024
GREETING = b"Hello from the private service behind the agent.\n"


def random_chunks(seed: int, total: int) -> Iterator[bytes]:
    """Yield ``total`` reproducible random bytes, so that both ends can make the same content without a file."""
    source = random.Random(seed)  # noqa: S311 - content of a test, not a secret
    while total > 0:
        yield source.randbytes(min(CHUNK, total))
        total -= CHUNK


class Handler(BaseHTTPRequestHandler):
    """GET /, /bytes, /slow; POST /digest, /echo, /exchange, /after-eof (each described at its method)."""

    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._dispatch({"/": self._greet, "/bytes": self._bytes, "/slow": self._slow})

    def do_POST(self) -> None:
        self._dispatch(
            {"/digest": self._digest, "/echo": self._echo, "/exchange": self._exchange, "/after-eof": self._after_eof}
        )

    def _dispatch(self, answers: dict[str, Callable[[], None]]) -> None:
        address = urlsplit(self.path)
        answer = answers.get(address.path)
        try:
            self._query = {name: int(values[-1]) for name, values in parse_qs(address.query).items()}
        except ValueError:
            answer = None
        if answer:
            answer()
        else:
            self.send_error(404)  # closes the connection too: a body was not read

    def _greet(self) -> None:
        self._answer(GREETING)

    def _bytes(self) -> None:
        """?n=&seed=: ``n`` random bytes of that seed."""
        self._head(self._number("n"))
        self._send_random()

    def _slow(self) -> None:
        """?milliseconds=: the greeting, whose first byte comes that late."""
        time.sleep(self._number("milliseconds") / 1000)
        self._greet()

    def _digest(self) -> None:
        """Answer with the SHA-256 of the request's body in hexadecimal."""
        self._answer(self._body_digest().encode())

    def _echo(self) -> None:
        """Send the body back while it arrives."""
        self._head(self._body_length())
        for chunk in self._body():
            self.wfile.write(chunk)

    def _exchange(self) -> None:
        """?n=&seed=: both directions at once, independent of each other; the body's SHA-256 follows the bytes."""
        self._head(self._number("n") + 64)
        sender = threading.Thread(target=self._send_random)
        sender.start()
        digest = self._body_digest()
        sender.join()
        self.wfile.write(digest.encode())

    def _after_eof(self) -> None:
        """?n=&seed=: answer as /exchange does, but only after the end of the user's half; then close."""
        self.close_connection = True
        digest = self._body_digest()
        if self.rfile.read(1):
            self.send_error(400, "bytes after the body")
            return
        self._head(self._number("n") + 64)
        self._send_random()
        self.wfile.write(digest.encode())

    def _number(self, name: str) -> int:
        return self._query.get(name, 0)

    def _head(self, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _answer(self, content: bytes) -> None:
        self._head(len(content))
        self.wfile.write(content)

    def _send_random(self) -> None:
        for chunk in random_chunks(self._number("seed"), self._number("n")):
            self.wfile.write(chunk)

    def _body_length(self) -> int:
        return int(self.headers.get("Content-Length", 0))

    def _body(self) -> Iterator[bytes]:
        left = self._body_length()
        while left and (chunk := self.rfile.read1(min(CHUNK, left))):
            left -= len(chunk)
            yield chunk

    def _body_digest(self) -> str:
        digest = hashlib.sha256()
        for chunk in self._body():
            digest.update(chunk)
        return digest.hexdigest()


class Service(ThreadingHTTPServer):
    """One thread per connection, a backlog for a burst, and no traceback for a user who went away."""

    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - as its base has it
        print(f"{client_address}: {sys.exception()!r}", file=sys.stderr, flush=True)


def main() -> None:
    """Serve until killed."""
    Service((LOOPBACK, int(sys.argv[1])), Handler).serve_forever()


if __name__ == "__main__":
    main()
