"""Waiting for another process: poll a condition until it holds, its process dies, or the time is up."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable

from relay.demo.ports import LOOPBACK
from tunnelmesh.common.clock import SystemClock
from tunnelmesh.common.errors import DomainError

POLL_SECONDS = 0.02
PROBE_TIMEOUT_SECONDS = 2.0


class NotInTime(DomainError):
    """What was waited for did not come."""


def wait_until(holds: Callable[[], bool], *, seconds: float, what: str, watch: Callable[[], None]) -> None:
    """Return once ``holds()`` is true; raises `NotInTime` naming ``what``, and at once whatever ``watch`` raises."""
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while not holds():
        watch()
        if clock.monotonic() > deadline:
            raise NotInTime("not_in_time", f"Waited {seconds:g} s for this in vain: {what}")
        time.sleep(POLL_SECONDS)


def http_status(port: int, path: str) -> int | None:
    """The status of GET ``path`` on 127.0.0.1, or None while nobody answers."""
    answer = _get(port, path)
    return answer[0] if answer else None


def gauge(port: int, name: str) -> float | None:
    """The value of an unlabelled metric at /metrics on 127.0.0.1, or None while there is none."""
    status, text = _get(port, "/metrics") or (0, "")
    for line in text.splitlines() if status == 200 else ():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    return None


def _get(port: int, path: str) -> tuple[int, str] | None:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=PROBE_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_listening(port: int) -> bool:
    """Whether somebody accepts connections at ``port`` of 127.0.0.1."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=PROBE_TIMEOUT_SECONDS).close()
    except OSError:
        return False
    return True
