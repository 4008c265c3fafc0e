"""A user of an entry: a plain TCP connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from relay.demo.ports import LOOPBACK

SECONDS = 10.0
PIECE = 65536


async def ask(port: int, said: bytes = b"hello") -> bytes:
    """What an entry's echoing service answers. Raises ConnectionResetError when the entry resets."""
    async with connected(port) as user:
        await user.send(said)
        user.finish()
        return await user.rest()


class User:
    """One connection; every wait is bounded."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(SECONDS):
            await self._loop.sock_sendall(self.sock, data)

    async def receive(self, count: int) -> bytes:
        """Exactly `count` bytes, fewer only at a clean end."""
        received = bytearray()
        async with asyncio.timeout(SECONDS):
            while (left := count - len(received)) and (data := await self._loop.sock_recv(self.sock, min(left, PIECE))):
                received += data
        return bytes(received)

    async def rest(self) -> bytes:
        """Everything up to the clean end."""
        return await self.receive(1 << 40)

    def finish(self) -> None:
        """Half-close."""
        self.sock.shutdown(socket.SHUT_WR)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[User]:
    """A connection to an entry."""
    with socket.socket() as sock:
        # Loopback answers at once; and a reset that follows at once is then no failure of the connect itself.
        sock.connect((LOOPBACK, port))
        sock.setblocking(False)
        yield User(sock)
