"""New connections: connect, one request, one answer, close; a fixed number of them at a time."""

import select
import socket
import time
from dataclasses import dataclass

from benchmarks.load.dial import STALL_SECONDS, LoadFailed
from benchmarks.load.percentiles import percentiles
from benchmarks.traffic import BUFFER_SIZE, Head, Mode

_BUFFER = memoryview(bytearray(BUFFER_SIZE))


@dataclass(slots=True)
class Attempt:
    """One connection on its way."""

    sock: socket.socket
    started: int
    missing: int


class Visitors:
    """Keeps `concurrency` attempts going until the deadline, then lets the last ones finish."""

    def __init__(self, *, port: int, size: int) -> None:
        self._address = ("127.0.0.1", port)
        self._size = size
        self._request = Head(Mode.ECHO, size).encode() + bytes(size)
        self._poll = select.epoll()
        self._attempts: dict[int, Attempt] = {}
        self.taken: list[int] = []
        self.failed = 0

    def run(self, *, concurrency: int, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        for _ in range(concurrency):
            self._start()
        while self._attempts:
            ready = self._poll.poll(STALL_SECONDS)
            if not ready:
                raise LoadFailed(f"stalled: {len(self._attempts)} connections got no answer")
            again = time.perf_counter() < deadline
            for fd, events in ready:
                if self._step(fd, events) and again:
                    self._start()

    def _start(self) -> None:
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        attempt = Attempt(sock, time.perf_counter_ns(), self._size)
        sock.connect_ex(self._address)
        self._attempts[sock.fileno()] = attempt
        self._poll.register(sock, select.EPOLLOUT)

    def _step(self, fd: int, events: int) -> bool:
        """True when the attempt has ended, well or not."""
        attempt = self._attempts[fd]
        try:
            if events & select.EPOLLOUT:
                attempt.sock.send(self._request)
                self._poll.modify(fd, select.EPOLLIN)
                return False
            size = attempt.sock.recv_into(_BUFFER)
        except BlockingIOError:
            return False
        except OSError:
            size = 0
        attempt.missing -= size
        if size and attempt.missing > 0:
            return False
        self._end(fd, attempt, complete=size > 0)
        return True

    def _end(self, fd: int, attempt: Attempt, *, complete: bool) -> None:
        del self._attempts[fd]
        attempt.sock.close()
        if complete:
            self.taken.append(time.perf_counter_ns() - attempt.started)
        else:
            self.failed += 1


def connect(*, port: int, concurrency: int, seconds: float, size: int) -> dict[str, float | None]:
    """Connections per second, how long each took from connect to the answer, and how many failed."""
    visitors = Visitors(port=port, size=size)
    started = time.perf_counter()
    visitors.run(concurrency=concurrency, seconds=seconds)
    elapsed = time.perf_counter() - started
    count = len(visitors.taken)
    return {"rate": count / elapsed, "count": count, "failed": visitors.failed, **percentiles(visitors.taken)}
