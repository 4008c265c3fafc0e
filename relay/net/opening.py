"""The first life of a connection: the TLS handshake and the HTTP heads, awaited by ordinary tasks.

Nothing here has a time limit: the caller's `asyncio.timeout` covers the whole opening (faults.md, R35).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from relay.net.engine import Engine
from relay.protocol.heads import MAX_HEAD, find_end

Result = TypeVar("Result")


class Opening:
    """A TLS socket over a connected one, which it owns from now on. Raises OSError or ValueError when there can be no
    TLS on it; then `sock` is still the caller's to close."""

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
        sock.getpeername()  # a peer that has gone is found by wrap_socket too, but that loses the descriptor
        self.source = source
        """The peer's address, for logs."""
        self.closed = False
        self._engine = engine
        self._loop = engine.loop
        self._socket = context.wrap_socket(
            sock, server_side=server, server_hostname=server_name, do_handshake_on_connect=False
        )
        self._fd = self._socket.fileno()
        self._behind_head = b""

    async def handshake(self) -> None:
        """Complete the TLS handshake. Raises OSError (ssl.SSLError among them)."""
        await self._retry(self._socket.do_handshake)

    def peer_certificate(self) -> bytes | None:
        """The peer's certificate as DER, or None when it sent none."""
        return self._socket.getpeercert(binary_form=True)

    async def read_head(self) -> bytes:
        """One HTTP head with its empty line. Raises BadHead above 16 KiB, OSError, and EOFError at the end of the
        connection."""
        buffer = bytearray(self._behind_head)
        while not (end := find_end(buffer)):
            buffer += await self._read_some(MAX_HEAD)
        self._behind_head = bytes(buffer[end:])
        return bytes(buffer[:end])

    async def read_body(self, length: int) -> bytes:
        """`length` bytes behind the head, or fewer when the connection ends before."""
        buffer = bytearray(self._behind_head)
        try:
            while len(buffer) < length:
                buffer += await self._read_some(MAX_HEAD)
        except (EOFError, OSError):
            pass
        self._behind_head = bytes(buffer[length:])
        return bytes(buffer[:length])

    async def send(self, data: bytes) -> None:
        """Write a head: all of it. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[await self._retry(self._socket.send, view) :]

    def check_waiting(self) -> None:
        """Raises ConnectionAbortedError unless the peer waits for our answer: a dialler is silent until then
        (design.md, section 3), so whatever can be read means that it has gone, or might as well have."""
        with contextlib.suppress(BlockingIOError):
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
            raise ConnectionAbortedError("the caller did not wait for the answer")

    async def _read_some(self, limit: int) -> bytes:
        data: bytes = await self._retry(self._socket.recv, limit)
        if not data:
            raise EOFError("the peer closed the connection")
        return data

    async def _retry(self, act: Callable[..., Result], *args: object) -> Result:
        """Do a TLS operation as soon as the socket allows it; each may have to wait for either direction."""
        while True:
            try:
                return act(*args)
            except ssl.SSLWantReadError:
                await self._ready(self._loop.add_reader, self._loop.remove_reader)
            except ssl.SSLWantWriteError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer)

    async def _ready(self, watch: Callable[..., object], unwatch: Callable[[int], object]) -> None:
        ready = self._loop.create_future()
        watch(self._fd, _wake, ready)
        try:
            await ready
        finally:
            # Once closed, the descriptor may be somebody else's.
            if not self.closed:
                unwatch(self._fd)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
