"""Bulk at a given rate or as fast as it goes, until told to end: the load beside which latency is measured."""

import select
import sys
import time

from benchmarks.load.dial import dial
from benchmarks.traffic import Head, Mode, Pattern

_TICK = 0.002
_ENDLESS = 1 << 62


def pace(*, port: int, rate: int, seconds: float) -> dict[str, float]:
    """Prints READY, then sends `rate` bytes a second (0: all it can) on one stream until stdin ends, or for `seconds`.

    Returns the rate that was reached.
    """
    sock, pattern = dial(port), Pattern()
    sock.sendall(Head(Mode.UP, _ENDLESS).encode())
    print("READY", flush=True)
    sent = 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds and not _told_to_end():
        if rate:
            time.sleep(_TICK)  # what is due meanwhile goes in one piece: a steady sender is not one of tiny writes
        due = int(rate * elapsed) - sent if rate else _ENDLESS
        sent += pattern.send(sock, sent, due) if due > 0 else 0
    sock.close()
    return {"rate": sent / elapsed}


def _told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])
