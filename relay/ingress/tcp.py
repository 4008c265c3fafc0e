"""A TCP entry: accepts users' connections, has a stream opened for each, and joins the two.

The stream is opened first, and what the user has said already rides behind its CONNECT head (design.md 3.1: SYN travels
with the first data). Nothing more is read until the answer, and a refusal resets the user's socket (a TCP entry has no
other way to say no). Why is told to the watcher, for log and metrics.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from relay.net.acceptor import Acceptor
from relay.net.channel import Channel
from relay.net.engine import Engine
from relay.net.pump import Pump, prepare
from relay.protocol.problem import Problem

log = logging.getLogger(__name__)

CONNECTIONS: Final = 4096
"""Users' connections of one entry at a time: each costs a descriptor here and a stream on every hop."""
OPENING: Final = 64
"""Users of one entry that wait for their stream at a time; more wait in the kernel. A target that does not answer then
leaves most of the backlog (256 unanswered streams of a session) to the other entries that share its sessions."""
EARLY: Final = 4096
"""First bytes that are read before the answer; they are kept until then, in case another way has to be tried."""

Answer = Callable[["Channel | Problem"], None]


class Watcher(Protocol):
    """Who is told how users' connections begin."""

    def opened(self) -> None:
        """A connection has its stream."""

    def refused(self, problem: Problem, source: str) -> None:
        """A connection from `source` was reset."""


class TcpEntry:
    """Serves listening `sockets`. `open_stream(answer, early)` opens a stream to where this entry leads, with the first
    bytes of the user behind its head."""

    def __init__(
        self,
        engine: Engine,
        sockets: list[socket.socket],
        *,
        open_stream: Callable[[Answer, bytes], None],
        watcher: Watcher,
        connections: int = CONNECTIONS,
    ) -> None:
        self._engine = engine
        self._open_stream = open_stream
        self._watcher = watcher
        self._limit = connections
        self._opening: set[socket.socket] = set()
        self.active = 0
        """Connections now, those that wait for their stream included."""
        self._acceptor = Acceptor(engine.loop, sockets, on_accepted=self._on_accepted, on_batch=engine.settle)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._acceptor.port

    def close(self) -> None:
        """Accept no more; connections that have their stream go on, the others are reset."""
        self._acceptor.close()
        for user in list(self._opening):
            self._reset(user)

    def _on_accepted(self, user: socket.socket, source: str) -> None:
        prepare(user)
        if self.active >= self._limit:
            user.close()
            self._watcher.refused(Problem(503, "busy", f"this entry has {self.active} connections"), source)
            return
        try:
            early = _early(user)
        except OSError as error:
            user.close()
            log.debug("%s was gone before it was served: %s", source, error)
            return
        self.active += 1
        self._opening.add(user)
        self._open_stream(partial(self._answered, user, source), early)
        if len(self._opening) >= OPENING:
            self._acceptor.pause()

    def _answered(self, user: socket.socket, source: str, result: Channel | Problem) -> None:
        if user not in self._opening:
            if isinstance(result, Channel):
                result.reset()
        elif isinstance(result, Problem):
            self._reset(user)
            self._watcher.refused(result, source)
        else:
            self._waits_no_more(user)
            self._watcher.opened()
            Pump(self._engine, user, result, self._closed).start()

    def _reset(self, user: socket.socket) -> None:
        self._waits_no_more(user)
        user.close()
        self._closed()

    def _waits_no_more(self, user: socket.socket) -> None:
        self._opening.discard(user)
        if len(self._opening) < OPENING:
            self._acceptor.resume()

    def _closed(self) -> None:
        self.active -= 1


def _early(user: socket.socket) -> bytes:
    """What the user has sent already. An end is left for the pump to find: it shows again. A reset does not, it would
    look like an end; so it is raised, as OSError."""
    try:
        return user.recv(EARLY)
    except BlockingIOError:
        return b""
