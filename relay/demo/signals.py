"""Ctrl-C and its kin as something to ask for at a safe point, never as an exception in the middle of a step."""

from __future__ import annotations

import signal
import socket
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):
    """The user, or the system, asked the demo to end."""


class Signals:
    """From creation on, the signals that ask for an end, and the death of children, are noted instead of acted on."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self.stopping = False
        for number in (*STOPPING, signal.SIGCHLD):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def check(self) -> None:
        """Raise `Stopped` if an end was asked for."""
        if self.stopping:
            raise Stopped

    def wait(self) -> None:
        """Sleep until a child has died or an end is asked for."""
        self._reader.recv(4096)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.stopping |= number in STOPPING
