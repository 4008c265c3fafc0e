"""The service and the end-to-end check, joined without a tunnel: the check passes, and it notices faults."""

import socket
import threading
from collections.abc import Iterator

import pytest

from relay.demo import check
from relay.demo.check import Mismatch, checks, request
from relay.demo.service import GREETING, Handler, Service, random_chunks


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[str, int]]:
    server = Service(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield "127.0.0.1", server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", [one.name for one in checks()])
def test_check_passes_without_a_tunnel(service: tuple[str, int], name: str) -> None:
    next(one for one in checks() if one.name == name).run(service)


def test_content_is_the_same_whatever_the_total() -> None:
    assert b"".join(random_chunks(7, 200_000)) == b"".join(random_chunks(7, 300_000))[:200_000]
    assert b"".join(random_chunks(7, 100)) != b"".join(random_chunks(8, 100))


def test_late_first_byte(service: tuple[str, int]) -> None:
    with request(service, "GET", "/slow?milliseconds=1") as answer:
        answer.expect([GREETING], what="greeting")


def test_echo_streams(service: tuple[str, int]) -> None:
    with request(service, "POST", "/echo", body=10) as answer:
        answer.send([b"hello"])
        answer.expect([b"hello"], what="first half")
        answer.send([b"world"])
        answer.expect([b"world"], what="second half")


def test_connection_serves_several_requests(service: tuple[str, int]) -> None:
    with request(service, "GET", "/") as answer:
        answer.expect([GREETING], what="first")
        answer.socket.sendall(b"GET / HTTP/1.1\r\nHost: service\r\n\r\n")
        answer.next()
        answer.expect([GREETING], what="second")


@pytest.mark.parametrize("path", ["/nothing", "/bytes?n=many"])
def test_bad_request_is_refused(service: tuple[str, int], path: str) -> None:
    with request(service, "GET", path) as answer, pytest.raises(Mismatch, match="404"):
        answer.expect([b""], what="answer")


class Lying:
    """A service that answers with the right head and wrong bytes."""

    def __init__(self, content: bytes) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.content = content
        threading.Thread(target=self.answer).start()

    @property
    def entry(self) -> tuple[str, int]:
        return "127.0.0.1", self.listener.getsockname()[1]

    def answer(self) -> None:
        with self.listener, self.listener.accept()[0] as user:
            while not user.recv(65536).endswith(b"\r\n\r\n"):
                pass
            user.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + self.content)


@pytest.mark.parametrize(
    "content",
    [
        b"".join(random_chunks(1, 99_999)),
        b"".join(random_chunks(1, 70_000)) + b"x" + b"".join(random_chunks(1, 100_000))[70_001:],
        b"",
    ],
    ids=["cut short", "one byte wrong", "nothing"],
)
def test_check_notices_wrong_bytes(content: bytes) -> None:
    with pytest.raises(Mismatch, match="download: the bytes differ"):
        check.download(Lying(content).entry, seed=1, size=100_000)


def test_check_notices_bytes_after_the_end(service: tuple[str, int]) -> None:
    lying = Lying(GREETING + b"x")
    with request(lying.entry, "GET", "/") as answer:
        answer.expect([GREETING], what="greeting")
        with pytest.raises(Mismatch, match="the end of the stream"):
            answer.expect_eof()
