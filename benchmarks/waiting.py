"""Waiting for a server that was just started."""

import socket
import time
from pathlib import Path

_START_SECONDS = 15.0
_PAUSE = 0.05


class NotStarted(Exception):
    """A scenario that did not come up; says where its log is and how it ends."""


def wait_for_port(port: int, *, log: Path) -> None:
    """Returns once something accepts on the port. Raises NotStarted after fifteen seconds."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(_PAUSE)
        else:
            return
    tail = log.read_text(errors="replace").strip()[-500:] if log.exists() else ""
    raise NotStarted(f"nothing listens on port {port} after {_START_SECONDS:.0f} s; {log} ends: {tail or 'empty'}")
