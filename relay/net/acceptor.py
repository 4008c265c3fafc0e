"""Listening sockets: bound with a clear error, accepted from in batches, and left alone for a while when the process is
out of descriptors (the kernel keeps who waits; asking again at once would only spin)."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

BACKLOG: Final = 1024
ACCEPT_BATCH: Final = 64
"""Connections taken per wake-up."""
PAUSE: Final = 1.0
"""Seconds without accepting after accept has failed, as when descriptors run out."""


class BindError(Exception):
    """An address that cannot be listened on; the text names it and the cause."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for every address of `host`. Raises BindError; then none is left open."""
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(BACKLOG)
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise BindError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return sockets


class Acceptor:
    """Calls `on_accepted(connection, address)` for each connection to the listening `sockets`, which it owns, and
    `on_batch()` after each wake-up's last one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: list[socket.socket],
        *,
        on_accepted: Callable[[socket.socket, str], None],
        on_batch: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._on_accepted = on_accepted
        self._on_batch = on_batch
        self._pause: asyncio.TimerHandle | None = None
        self._watch()

    @property
    def port(self) -> int:
        """The port that is listened on; it matters where port 0 was asked for."""
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening."""
        if self._pause is not None:
            self._pause.cancel()
        self._ignore()
        for sock in self._sockets:
            sock.close()
        self._sockets = []

    def _watch(self) -> None:
        self._pause = None
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._on_readable, sock)

    def _ignore(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())

    def _on_readable(self, listening: socket.socket) -> None:
        try:
            for _ in range(ACCEPT_BATCH):
                connection, address = listening.accept()
                self._on_accepted(connection, str(address[0]))
        except BlockingIOError:
            pass
        except ConnectionAbortedError as error:
            log.debug("a connection was gone before it was accepted: %s", error)
        except OSError as error:
            log.error("cannot accept on port %d, trying again in %g s: %s", self.port, PAUSE, error)
            self._ignore()
            self._pause = self._loop.call_later(PAUSE, self._watch)
        self._on_batch()
