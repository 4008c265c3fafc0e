"""Many open streams that carry nothing."""

import socket
import sys
import time

from benchmarks.load.dial import LoadFailed, dial, exchange
from benchmarks.traffic import Head, Mode


def idle(*, port: int, streams: int, size: int, seconds: float) -> dict[str, float]:
    """Opens the streams, one round trip each, prints READY, holds them until stdin ends, then proves each alive.

    Fails when the opening takes longer than `seconds`.
    """
    request, answer = bytes(size), memoryview(bytearray(size))
    head = Head(Mode.ECHO, size).encode()
    deadline = time.perf_counter() + seconds
    opened: list[socket.socket] = []
    for _ in range(streams):
        if time.perf_counter() > deadline:
            raise LoadFailed(f"opened only {len(opened)} of {streams} streams in {seconds:.0f} s")
        sock = dial(port)
        exchange(sock, head + request, answer)
        opened.append(sock)
    print("READY", flush=True)
    sys.stdin.read()
    for sock in opened:
        exchange(sock, request, answer)
    return {"streams": streams}
