"""Bulk transfer over a number of streams at once, in one direction, as fast as it goes."""

import select
import socket
import time
from dataclasses import dataclass, field

from benchmarks.load.dial import STALL_SECONDS, LoadFailed, dial
from benchmarks.traffic import BUFFER_SIZE, COUNT, Head, Mode, Pattern

_PATTERN = Pattern()
_BUFFER = memoryview(bytearray(BUFFER_SIZE))


@dataclass(slots=True)
class Stream:
    """One connection of the transfer; `done` counts payload in its direction."""

    sock: socket.socket
    head: Head
    done: int = 0
    answer: bytearray = field(default_factory=bytearray)

    def step(self, events: int) -> bool:
        """Moves what can be moved at once; True when the stream is complete. Raises LoadFailed or OSError."""
        if self.head.mode is Mode.DOWN:
            return self._receive()
        if events & select.EPOLLOUT and self.done < self.head.length:
            self.done += _PATTERN.send(self.sock, self.head.start + self.done, self.head.length - self.done)
        return bool(events & ~select.EPOLLOUT) and self._receive_count()

    def _receive(self) -> bool:
        flags = 0 if self.head.verified else socket.MSG_TRUNC
        size = self.sock.recv_into(_BUFFER, BUFFER_SIZE, flags)
        if not size:
            raise LoadFailed(f"stream {self.head.stream} ended after {self.done} of {self.head.length} bytes")
        if self.head.verified:
            self._check(self.done + size, self.done + _PATTERN.matching(_BUFFER[:size], self.head.start + self.done))
        self.done += size
        return self.done >= self.head.length

    def _receive_count(self) -> bool:
        data = self.sock.recv(COUNT.size)
        if not data:
            raise LoadFailed(f"stream {self.head.stream} ended before the target had counted its bytes")
        self.answer += data
        if len(self.answer) < COUNT.size:
            return False
        (intact,) = COUNT.unpack(self.answer)
        self._check(self.head.length, intact)
        return True

    def _check(self, arrived: int, intact: int) -> None:
        if intact != arrived:
            raise LoadFailed(f"stream {self.head.stream}: the byte at {intact} is wrong")


def bulk(*, port: int, streams: int, length: int, up: bool, verified: bool, seconds: float) -> dict[str, float]:
    """Moves `length` bytes on each stream; fails when it takes longer than `seconds`, or nothing moves."""
    mode = Mode.UP if up else Mode.DOWN
    transfer = [Stream(dial(port), Head(mode, length, index, verified)) for index in range(streams)]
    started, cpu = time.perf_counter(), time.process_time()
    for stream in transfer:
        stream.sock.sendall(stream.head.encode())
        stream.sock.setblocking(False)
    _run({stream.sock.fileno(): stream for stream in transfer}, deadline=started + seconds)
    elapsed = time.perf_counter() - started
    return {"bytes": length * streams, "seconds": elapsed, "generator_cpu": time.process_time() - cpu}


def _run(pending: dict[int, Stream], *, deadline: float) -> None:
    poll = select.epoll()
    for fd, stream in pending.items():
        poll.register(fd, select.EPOLLIN | (select.EPOLLOUT if stream.head.mode is Mode.UP else 0))
    while pending:
        ready = poll.poll(STALL_SECONDS)
        if not ready or time.perf_counter() > deadline:
            moved = ", ".join(f"{stream.head.stream}: {stream.done}" for stream in pending.values())
            raise LoadFailed(f"{'too slow' if ready else 'stalled'}; bytes moved by unfinished streams: {moved}")
        for fd, events in ready:
            _step(poll, pending, fd, events)


def _step(poll: select.epoll, pending: dict[int, Stream], fd: int, events: int) -> None:
    stream = pending[fd]
    try:
        complete = stream.step(events)
    except BlockingIOError:
        return
    if complete:
        del pending[fd]
        stream.sock.close()
    elif events & select.EPOLLOUT and stream.done == stream.head.length:
        poll.modify(fd, select.EPOLLIN)
