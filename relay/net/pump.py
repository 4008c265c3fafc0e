"""A plain socket joined with a stream: a user at an entry, or a target behind an agent.

Until both directions have ended cleanly the socket carries SO_LINGER (1, 0): whatever goes wrong, a kill -9 included,
the other end sees a reset and never a clean end (design.md, section 3).
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable
from typing import Final

from relay.net.channel import SMALL, Channel
from relay.net.engine import Engine
from relay.net.heads import attach
from relay.protocol.limits import HEADER_SIZE

log = logging.getLogger(__name__)

BROKEN: Final = "a socket and its stream are reset: their pump failed"
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
ORDERLY_CLOSE: Final = struct.pack("ii", 0, 0)


def prepare(sock: socket.socket) -> None:
    """Make an accepted or connecting plain socket fit for a pump: non-blocking, no delay, reset on close."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


class Pump:
    """Moves bytes between `sock`, which it owns from now on, and `channel`. `on_closed` is called once."""

    __slots__ = (
        "_channel",
        "_engine",
        "_eof",
        "_fd",
        "_finished",
        "_on_closed",
        "_out",
        "_reading",
        "_small",
        "_socket",
    )

    def __init__(
        self, engine: Engine, sock: socket.socket, channel: Channel, on_closed: Callable[[], None] | None = None
    ) -> None:
        self._engine = engine
        self._socket = sock
        self._fd = sock.fileno()
        self._channel = channel
        self._on_closed = on_closed
        self._out: bytearray | None = None
        self._reading = False
        self._small = True
        self._eof = self._finished = False

    def start(self) -> None:
        """Begin."""
        if not self._channel.stream.state:
            self._close()
            return
        attach(self._channel, self, self)
        if self._socket.fileno() >= 0:
            self._arm()

    # -- from the socket to the stream -----------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            self._read()
        except Exception:
            log.exception(BROKEN)
            self._fail()
        self._engine.settle()

    def _read(self) -> None:
        """Send what the socket has, one frame at most; without room for it, stop watching and wait."""
        channel, frame = self._channel, self._engine.frame
        room = channel.room(small=self._small)
        if not room:
            self._disarm()
            channel.wait()
            return
        try:
            count = self._socket.recv_into(frame[HEADER_SIZE : HEADER_SIZE + room])
        except BlockingIOError:
            return
        except OSError:
            self._fail()
            return
        if count:
            self._small = count < SMALL
            channel.send(frame, HEADER_SIZE, HEADER_SIZE + count)
        else:
            self._eof = True
            self._disarm()
            channel.finish()
            self._close_if_done()

    def on_sent(self, count: int) -> None:
        """Nothing is queued behind a pump but the head that was sent before it."""

    def on_writable(self) -> None:
        """The stream takes bytes again: it is this one's turn, so send what is there."""
        if not self._eof:
            self._arm()
            self._read()

    # -- from the stream to the socket -----------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """Bytes that the socket has not taken yet."""
        return 0 if self._out is None else len(self._out)

    def on_data(self, buffer: memoryview, start: int, end: int) -> None:
        """Write what the socket takes; keep the rest, and its credit."""
        if self._out is not None:
            self._out += buffer[start:end]
            return
        try:
            count = self._socket.send(buffer[start:end])
        except BlockingIOError:
            count = 0
        except OSError:
            self._fail()
            return
        if start + count < end:
            self._out = bytearray(buffer[start + count : end])
            self._channel.queue_moved_at = self._engine.seen
            self._engine.loop.add_writer(self._fd, self._on_writable)
        self._channel.consumed(count)

    def _on_writable(self) -> None:
        try:
            if self._out is not None:
                self._write(self._out)
        except Exception:
            log.exception(BROKEN)
            self._fail()
        self._engine.settle()

    def _write(self, out: bytearray) -> None:
        try:
            count = self._socket.send(out)
        except BlockingIOError:
            return
        except OSError:
            self._fail()
            return
        del out[:count]
        channel = self._channel
        self._engine.seen = channel.moved_at = channel.queue_moved_at = self._engine.now()
        channel.consumed(count)
        if not out:
            self._out = None
            self._engine.loop.remove_writer(self._fd)
            if self._finished:
                self._shut()

    def on_finish(self) -> None:
        """The far side has sent its last byte: half-close, behind what is still to be written."""
        self._finished = True
        if self._out is None:
            self._shut()

    def _shut(self) -> None:
        """Half-close; where the other half has ended before, closing says the same."""
        try:
            if not self._eof:
                self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._fail()
        else:
            self._close_if_done()

    # -- the end ---------------------------------------------------------------------------------------------------

    def on_reset(self) -> None:
        """The stream is gone: the socket is reset."""
        self._close()

    def on_tick(self) -> None:
        """A socket that is not read does not tell that its peer has reset it, and uvloop watches a socket no more once
        it has told of a reset together with the last bytes: ask."""
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail()

    def _close_if_done(self) -> None:
        if self._eof and self._finished and self._out is None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ORDERLY_CLOSE)
            self._close()

    def _fail(self) -> None:
        self._channel.reset()
        self._close()

    def _close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._disarm()
        if self._out is not None:
            self._out = None
            self._engine.loop.remove_writer(self._fd)
        self._socket.close()
        if self._on_closed is not None:
            self._on_closed()

    def _arm(self) -> None:
        if not self._reading:
            self._reading = True
            self._engine.loop.add_reader(self._fd, self._on_readable)

    def _disarm(self) -> None:
        if self._reading:
            self._reading = False
            self._engine.loop.remove_reader(self._fd)
