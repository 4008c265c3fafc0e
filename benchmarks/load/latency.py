"""Round trips on one open stream, one after the other."""

import time

from benchmarks.load.dial import dial, exchange
from benchmarks.load.percentiles import percentiles
from benchmarks.traffic import Head, Mode

_WARM_UP = 20


def latency(*, port: int, seconds: float, size: int) -> dict[str, float | None]:
    """Sends `size` bytes and reads as many back, again and again, for about `seconds`."""
    sock = dial(port)
    request, answer = bytes(size), memoryview(bytearray(size))
    exchange(sock, Head(Mode.ECHO, size).encode() + request, answer)
    for _ in range(_WARM_UP):
        exchange(sock, request, answer)
    taken: list[int] = []
    now = time.perf_counter_ns()
    deadline = now + int(seconds * 1e9)
    while now < deadline:
        exchange(sock, request, answer)
        started, now = now, time.perf_counter_ns()
        taken.append(now - started)
    sock.close()
    return percentiles(taken)
