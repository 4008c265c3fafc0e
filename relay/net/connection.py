"""One TLS connection: a non-blocking `ssl.SSLSocket` driven by `add_reader` and `add_writer` (design.md 3.1).

It has two lives. First the heads: `handshake`, `read_head`, `send`, awaited by ordinary tasks. Then, from `start`
on, the data plane: callbacks, the engine's shared buffer, no task. Bytes that came behind the head are delivered first.
Both directions may want the other one's readiness (a TLS 1.3 key update while reading, say).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final, Protocol

from relay.net.engine import Engine
from relay.protocol.heads import MAX_HEAD, find_end
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
        """The connection has ended; it is closed already."""


class Connection:
    """A TLS connection over a connected non-blocking socket."""

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
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.source = source
        """The peer's address, for logs."""
        self.blocked = False
        """True while bytes wait because the socket takes no more."""
        self.closed = False
        self.written_at = engine.now()
        """When the socket last took a byte, or had nothing to take."""
        self._engine = engine
        self._loop = engine.loop
        self._socket = context.wrap_socket(
            sock, server_side=server, server_hostname=server_name, do_handshake_on_connect=False
        )
        self._fd = self._socket.fileno()
        self._receiver: Receiver | None = None
        self._behind_head = b""
        self._tail = bytearray()
        self._reading = self._writing = False
        self._read_wants_write = self._write_wants_read = False
        self._linger: asyncio.TimerHandle | None = None

    # -- the heads -------------------------------------------------------------------------------------------------

    async def handshake(self) -> None:
        """Complete the TLS handshake. Raises OSError (ssl.SSLError among them)."""
        while True:
            try:
                self._socket.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._readable()
            except ssl.SSLWantWriteError:
                await self._writable()

    def peer_certificate(self) -> bytes | None:
        """The peer's certificate as DER, or None when it sent none."""
        return self._socket.getpeercert(binary_form=True)

    async def read_head(self) -> bytes:
        """One HTTP head with its empty line. Raises BadHead above 16 KiB, and EOFError at the end of the connection."""
        buffer = bytearray(self._behind_head)
        while not (end := find_end(buffer)):
            buffer += await self.read_some(MAX_HEAD)
        self._behind_head = bytes(buffer[end:])
        return bytes(buffer[:end])

    async def read_body(self, length: int) -> bytes:
        """`length` bytes behind the head, or fewer when the connection ends before."""
        buffer = bytearray(self._behind_head)
        try:
            while len(buffer) < length:
                buffer += await self.read_some(length - len(buffer))
        except (EOFError, OSError):
            pass
        self._behind_head = bytes(buffer[length:])
        return bytes(buffer[:length])

    async def read_some(self, limit: int) -> bytes:
        """At least one byte, at most `limit`. Raises EOFError and OSError."""
        while True:
            try:
                data = self._socket.recv(limit)
            except ssl.SSLWantReadError:
                await self._readable()
            except ssl.SSLWantWriteError:
                await self._writable()
            else:
                if not data:
                    raise EOFError("the peer closed the connection")
                return data

    async def send(self, data: bytes) -> None:
        """Write a head: all of it. Raises OSError."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except ssl.SSLWantWriteError:
                await self._writable()
            except ssl.SSLWantReadError:
                await self._readable()

    async def _readable(self) -> None:
        ready = self._loop.create_future()
        self._loop.add_reader(self._fd, _wake, ready)
        try:
            await ready
        finally:
            if not self.closed:
                self._loop.remove_reader(self._fd)

    async def _writable(self) -> None:
        ready = self._loop.create_future()
        self._loop.add_writer(self._fd, _wake, ready)
        try:
            await ready
        finally:
            if not self.closed:
                self._loop.remove_writer(self._fd)

    # -- the data plane --------------------------------------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        """Begin the data plane; what came behind the head is delivered in the next turn."""
        self._receiver = receiver
        self._arm_reader()
        if self._behind_head:
            self._loop.call_soon(self._deliver_behind_head)

    def _deliver_behind_head(self) -> None:
        data, self._behind_head = self._behind_head, b""
        if self._receiver is not None and not self.closed:
            end = HEADER_SIZE + len(data)
            self._engine.received[HEADER_SIZE:end] = data
            self._receiver.on_bytes(HEADER_SIZE, end)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`, or keep a copy of what the socket does not take and be `blocked` until it does."""
        if self.blocked:
            self._tail += data
            return
        view = memoryview(data)
        taken = self._write(view)
        if taken < len(view) and not self.closed:
            self._tail += view[taken:]
            self.blocked = True
            self.written_at = self._engine.now()
            self._watch_writability()

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
        if self._tail and not self.closed:
            with memoryview(self._tail) as view:
                taken = self._write(view)
            if taken:
                self.written_at = self._engine.now()
                del self._tail[:taken]
        self._watch_writability()
        if self._tail or self.closed or not self.blocked:
            return
        self.blocked = False
        if self._receiver is not None:
            self._receiver.on_writable()
        elif self._linger is not None:
            self._say_goodbye()

    def _watch_writability(self) -> None:
        """Watch while something waits for it; not while SSL_write waits for input, the loop would spin."""
        wanted = self._read_wants_write or (bool(self._tail) and not self._write_wants_read)
        if self.closed or wanted == self._writing:
            return
        self._writing = wanted
        if wanted:
            self._loop.add_writer(self._fd, self._on_writable)
        else:
            self._loop.remove_writer(self._fd)

    def _on_readable(self) -> None:
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
        """Fill the shared buffer. Where the plaintext ends, and why the connection is lost, if it is."""
        end, view, read = HEADER_SIZE, self._engine.received, self._socket.read
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
            self._watch_writability()
            return end, None
        except (OSError, ValueError) as error:
            return end, _reason(error)
        # The budget of this turn is used up; a record inside the SSL object would not wake the loop.
        if self._socket.pending():
            self._loop.call_soon(self._on_readable)
        return end, None

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, last_words: bytes | bytearray = b"") -> None:
        """Write `last_words`, say goodbye, and close when the peer has closed too or `CLOSE_TIMEOUT` is over: closing
        a socket with unread bytes would reset it, and the peer would lose our last words. The receiver hears nothing
        more."""
        if self.closed or self._linger is not None:
            return
        self._receiver = None
        self._linger = self._loop.call_later(CLOSE_TIMEOUT, self.abort)
        self._engine.leaving[self] = self._loop.create_future()
        self._arm_reader()
        if last_words:
            self.write(last_words)
        if not self.blocked and not self.closed:
            self._say_goodbye()

    def release(self) -> None:
        """Close at once what nobody has started or is closing already."""
        if self._receiver is None and self._linger is None:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self.closed:
            return
        self.closed = True
        if self._linger is not None:
            self._linger.cancel()
            self._engine.leaving.pop(self).set_result(None)
        self._receiver = None
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._tail.clear()
        self._socket.close()

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
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.on_lost(reason)

    def _arm_reader(self) -> None:
        if not self._reading and not self.closed:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return str(error)
