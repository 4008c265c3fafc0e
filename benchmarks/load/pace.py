"""Bulk for a given time, at a given rate or as fast as it goes: the load beside which latency is measured."""

import time

from benchmarks.load.dial import dial
from benchmarks.traffic import Head, Mode, Pattern

_TICK = 0.002
_ENDLESS = 1 << 62


def pace(*, port: int, rate: int, seconds: float) -> dict[str, float]:
    """Sends `rate` bytes a second (0: all it can) on one stream for `seconds`; returns the rate that was reached."""
    sock, pattern = dial(port), Pattern()
    sock.sendall(Head(Mode.UP, _ENDLESS).encode())
    sent = 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        due = int(rate * elapsed) - sent if rate else _ENDLESS
        if due > 0:
            sent += pattern.send(sock, sent, due)
        else:
            time.sleep(_TICK)
    sock.close()
    return {"rate": sent / seconds}
