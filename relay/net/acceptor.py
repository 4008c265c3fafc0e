"""Listening sockets, and the connections that come in on them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from errno import EADDRINUSE, EAFNOSUPPORT
from typing import Any, Final

log = logging.getLogger(__name__)

BACKLOG: Final = 1024
ACCEPT_BATCH: Final = 64
"""Connections taken per wake-up."""
PAUSE: Final = 1.0
"""Seconds without accepting after accept has failed, as when descriptors run out. Who waits stays in the kernel; trying
again at once would only spin."""
SAME_PORT_ATTEMPTS: Final = 16


class BindError(Exception):
    """An address that cannot be listened on; the text names it and the cause."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for every address of `host`, every address of this machine when it is empty. With port 0 they
    share one free port. Raises BindError; then none is left open."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        places = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
        for _ in range(SAME_PORT_ATTEMPTS - 1):
            try:
                return _bind_all(places)
            except OSError as error:
                # The port that is free for one family may be taken in the other.
                if port or len(places) == 1 or error.errno != EADDRINUSE:
                    raise
        return _bind_all(places)
    except OSError as error:
        raise BindError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    except UnicodeError as error:
        raise BindError(f"cannot listen on {host}:{port}: {error}") from error


def _bind_all(places: Sequence[tuple[int, Any]]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for family, (host, wanted, *scope) in places:
            port = wanted or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                # A machine without IPv6 still has the name "::".
                if error.errno == EAFNOSUPPORT and len(places) > 1:
                    continue
                raise
            sockets.append(sock)
            _listen(sock, (host, port, *scope))
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _listen(sock: socket.socket, address: tuple[Any, ...]) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(address)
    sock.listen(BACKLOG)


class Acceptor:
    """Calls `on_accepted(connection, address)` for each connection to the listening `sockets`, which it owns, and
    `on_batch()` after the last one of a wake-up."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: list[socket.socket],
        *,
        on_accepted: Callable[[socket.socket, str], None],
        on_batch: Callable[[], None] = lambda: None,
        batch: int = ACCEPT_BATCH,
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._on_accepted = on_accepted
        self._on_batch = on_batch
        self._batch = batch
        self._paused = False
        for sock in sockets:
            self._watch(sock)

    @property
    def port(self) -> int:
        """The port that is listened on; it matters where port 0 was asked for."""
        return int(self._sockets[0].getsockname()[1])

    def pause(self) -> None:
        """Let who comes wait in the kernel until `resume`; may be called from `on_accepted`."""
        if not self._paused:
            self._paused = True
            for sock in self._sockets:
                self._loop.remove_reader(sock.fileno())

    def resume(self) -> None:
        """Accept again."""
        if self._paused:
            self._paused = False
            for sock in self._sockets:
                self._watch(sock)

    def close(self) -> None:
        """Accept no more."""
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets = []

    def _on_readable(self, sock: socket.socket) -> None:
        for _ in range(self._batch):
            # Whoever is told of a connection may pause or close this.
            if self._paused or sock not in self._sockets:
                break
            try:
                connection, address = sock.accept()
            except BlockingIOError:
                break
            except ConnectionAbortedError as error:
                log.debug("a connection was gone before it was accepted: %s", error)
            except OSError as error:
                log.error("no connections are accepted for %g s: %s", PAUSE, error.strerror or error)
                self._loop.remove_reader(sock.fileno())
                self._loop.call_later(PAUSE, self._watch, sock)
                break
            else:
                self._tell(connection, str(address[0]))
        self._on_batch()

    def _tell(self, connection: socket.socket, address: str) -> None:
        try:
            self._on_accepted(connection, address)
        except Exception:
            log.exception("a connection from %s is closed: who was to take it has failed", address)
            connection.close()

    def _watch(self, sock: socket.socket) -> None:
        if sock in self._sockets and not self._paused:
            self._loop.add_reader(sock.fileno(), self._on_readable, sock)
