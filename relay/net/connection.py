"""One TLS connection: a non-blocking `ssl.SSLSocket` driven by `add_reader` and `add_writer` (design.md 3.1).

It has two lives. The first is `Opening`. The second, from `start` on, is the data plane: callbacks, the engine's shared
buffer, no task. Bytes that came behind the head are delivered first. Either direction may want the other one's
readiness (a TLS 1.3 key update while reading, say).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from relay.net.engine import Engine
from relay.net.opening import Opening
from relay.protocol.limits import HEADER_SIZE, MAX_FRAME, TLS_RECORD

CLOSE_TIMEOUT: Final = 3.0
"""Seconds that a peer may take to read our last words (faults.md, section 4: TLS shutdown)."""
BUFFER_END: Final = HEADER_SIZE + MAX_FRAME


class Receiver(Protocol):
    """Who gets a started connection's events."""

    def on_bytes(self, start: int, end: int) -> None:
        """Plaintext lies at `engine.received[start:end]`."""

    def on_writable(self) -> None:
        """Everything that was given to `write` has gone; the connection is no longer `blocked`."""

    def on_lost(self, reason: str) -> None:
        """The connection has ended; it is closed already. Never called from inside `write`."""


class Connection(Opening):
    """A TLS connection. `release` or a session ends what `Opening` has begun."""

    def __init__(
        self,
        engine: Engine,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        server: bool,
        server_name: str | None = None,
        source: str = "",
    ) -> None:
        super().__init__(engine, sock, context, server=server, server_name=server_name, source=source)
        self.blocked = False
        """True while bytes wait because the socket takes no more."""
        self.written_at = engine.now()
        """When the socket last took a byte of what waits, or something began to wait."""
        self._receiver: Receiver | None = None
        self._tail = bytearray()
        self._reading = self._writing = False
        self._read_wants_write = self._write_wants_read = False
        self._linger: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()

    def start(self, receiver: Receiver) -> None:
        """Begin the data plane; what came behind the head is delivered in the next turn, before anything else."""
        self._receiver = receiver
        if self.closed:
            self._loop.call_soon(receiver.on_lost, "closed before it began")
        self._watch()
        if self._behind_head:
            self._loop.call_soon(self._deliver_behind_head)

    def _deliver_behind_head(self) -> None:
        data, self._behind_head = self._behind_head, b""
        if data and self._receiver is not None:
            end = HEADER_SIZE + len(data)
            self._engine.received[HEADER_SIZE:end] = data
            self._receiver.on_bytes(HEADER_SIZE, end)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`, or keep a copy of what the socket does not take and be `blocked` until it does. On a
        closed connection this does nothing."""
        if self.blocked:
            self._tail += data
            return
        if self.closed:
            return
        view = memoryview(data)
        taken = self._write(view)
        if taken < len(view) and not self.closed:
            self._tail += view[taken:]
            self.blocked = True
            self.written_at = self._engine.now()
            self._watch()

    def _write(self, view: memoryview) -> int:
        """How many bytes the socket took. One TLS record a call: SSL_write is all or nothing, and after a refusal it
        must be given the same bytes again."""
        position, size, write = 0, len(view), self._socket.write
        try:
            while position < size:
                position += write(view[position : position + TLS_RECORD])
        except ssl.SSLWantWriteError:
            pass
        except ssl.SSLWantReadError:
            self._write_wants_read = True
        except (OSError, ValueError) as error:
            self._lose(_reason(error))
        return position

    def _on_writable(self) -> None:
        if self._read_wants_write:
            self._read_wants_write = False
            self._on_readable()
        if self._tail:
            with memoryview(self._tail) as view:
                taken = self._write(view)
            if taken:
                self.written_at = self._engine.now()
                del self._tail[:taken]
        self._watch()
        if self._tail or self.closed or not self.blocked:
            return
        self.blocked = False
        if self._receiver is not None:
            self._receiver.on_writable()
        elif self._linger is not None:
            self._say_goodbye()

    def _watch(self) -> None:
        """Watch for what can go on: not for input while SSL_read waits to write, nor for room while SSL_write waits to
        read. The loop would spin."""
        if self.closed:
            return
        reading = not self._read_wants_write
        if reading != self._reading:
            self._reading = reading
            if reading:
                self._loop.add_reader(self._fd, self._on_readable)
            else:
                self._loop.remove_reader(self._fd)
        writing = self._read_wants_write or (bool(self._tail) and not self._write_wants_read)
        if writing != self._writing:
            self._writing = writing
            if writing:
                self._loop.add_writer(self._fd, self._on_writable)
            else:
                self._loop.remove_writer(self._fd)

    def _on_readable(self) -> None:
        if self._behind_head:
            self._deliver_behind_head()  # uvloop may be here before it has called what was to be called soon
        if self._write_wants_read:
            self._write_wants_read = False
            self._on_writable()
        if self.closed:
            return
        if self._receiver is None:
            self._discard()
            return
        end, lost = self._read()
        if end > HEADER_SIZE:
            self._receiver.on_bytes(HEADER_SIZE, end)
        if lost is not None:
            self._lose(lost)

    def _read(self) -> tuple[int, str | None]:
        """Fill the shared buffer. Where the plaintext ends, and why the connection is lost, if it is. Records are read
        whole: one that was left inside the SSL object would not wake the loop."""
        end, view = HEADER_SIZE, self._engine.received
        read: Callable[[int, memoryview], int] = self._socket.read  # type: ignore[assignment]  # into a buffer: a count
        try:
            while end + TLS_RECORD <= BUFFER_END:
                count = read(TLS_RECORD, view[end : end + TLS_RECORD])
                if not count:
                    return end, "the peer closed the connection"
                end += count
                # Asking again after a short record would most often cost an exception only to hear "nothing more".
                if count < TLS_RECORD:
                    return end, None
        except ssl.SSLWantReadError:
            return end, None
        except ssl.SSLWantWriteError:
            self._read_wants_write = True
            self._watch()
            return end, None
        except (OSError, ValueError) as error:
            return end, _reason(error)
        return end, None

    def on_tick(self) -> None:
        """Once a second: has the peer reset the connection? uvloop watches a socket no more once it has told of a reset
        together with the last bytes."""
        if not self.closed and (error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            self._lose(os.strerror(error))

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, last_words: bytes | bytearray = b"") -> None:
        """Write `last_words`, say goodbye, and close when the peer has closed too or `CLOSE_TIMEOUT` is over: closing
        a socket with unread bytes would reset it, and the peer would lose our last words. The receiver hears nothing
        more."""
        if self.closed or self._linger is not None:
            return
        self._receiver = None
        self._engine.closing.add(self)
        self._linger = self._loop.call_later(CLOSE_TIMEOUT, self.abort)
        self._watch()
        if last_words:
            self.write(last_words)
        if not self.blocked and not self.closed:
            self._say_goodbye()

    async def wait_closed(self) -> None:
        """Until the connection has closed, if it is closing: at most `CLOSE_TIMEOUT`."""
        if self._linger is not None:
            await self._over.wait()

    def release(self) -> None:
        """Close at once unless a session has it."""
        if self._receiver is None:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self.closed:
            return
        self.closed = True
        self.blocked = False
        if self._linger is not None:
            self._linger.cancel()
        self._receiver = None
        self._engine.closing.discard(self)
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._tail = bytearray()  # not cleared: a write that has just failed still looks at the old one
        self._socket.close()
        self._over.set()

    def _say_goodbye(self) -> None:
        """close_notify, then FIN. The TLS object stays, so only the plain socket's methods are used from here on."""
        # Most often "want read": the peer's own close_notify is not waited for.
        with contextlib.suppress(OSError, ValueError):
            self._socket.unwrap()
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
        except OSError:
            self.abort()

    def _discard(self) -> None:
        """Take in what a peer still sends to a closing connection; its bytes mean nothing any more."""
        try:
            if socket.socket.recv_into(self._socket, self._engine.received):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.abort()

    def _lose(self, reason: str) -> None:
        """Close at once, and tell the receiver in the next turn: it may be in the middle of a call of `write`."""
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            self._loop.call_soon(receiver.on_lost, reason)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return str(error)
