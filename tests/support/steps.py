"""A loop and links whose every step the test takes: which callback, which socket, how many bytes of which link.

Plain sockets are real ones. A link is in memory: what is written fills a small buffer, then it blocks, as TLS would.
"""

import random
import select
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from relay.net.engine import Engine
from relay.protocol.limits import HEADER_SIZE


class StepLoop:
    """As much of an event loop as the data plane uses."""

    def __init__(self) -> None:
        self.soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.readers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self.writers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.soon.append((callback, args))

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        self.readers[fd] = callback, args

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        self.writers[fd] = callback, args

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def remove_writer(self, fd: int) -> None:
        self.writers.pop(fd, None)

    def ready(self) -> list[tuple[dict[int, Any], int]]:
        """The watched descriptors that can go on."""
        readable, writable, _ = select.select(list(self.readers), list(self.writers), [], 0)
        return [(self.readers, fd) for fd in readable] + [(self.writers, fd) for fd in writable]

    def call_next(self) -> None:
        callback, args = self.soon.popleft()
        callback(*args)

    def call_ready(self, watched: dict[int, Any], fd: int) -> None:
        callback, args = watched[fd]
        callback(*args)


class Link:
    """One end of a connection in memory; `joined` makes both."""

    def __init__(self, engine: Engine, *, size: int) -> None:
        self.engine = engine
        self.size = size
        self.blocked = self.closed = False
        self.written_at = 0.0
        self.peer: Link
        self.receiver: Any = None
        self.under_way = bytearray()
        """What the kernel would hold: at most `size` bytes, and one refused write."""
        self.tail = bytearray()

    def start(self, receiver: Any) -> None:
        self.receiver = receiver

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            return
        self.tail += data
        self._take()
        self.blocked = bool(self.tail)

    def _take(self) -> None:
        count = max(0, self.size - len(self.under_way))
        self.under_way += self.tail[:count]
        del self.tail[:count]

    def on_tick(self) -> None:
        """Nobody resets it."""

    def close(self, last_words: bytes | bytearray = b"") -> None:
        self.closed = True

    @property
    def can_deliver(self) -> bool:
        return bool(self.under_way) and not self.peer.closed

    @property
    def can_free(self) -> bool:
        return self.blocked and len(self.under_way) < self.size

    def deliver(self, most: int) -> None:
        """Some of what is under way arrives."""
        buffer = self.peer.engine.received
        count = min(most, len(self.under_way), len(buffer) - HEADER_SIZE)
        buffer[HEADER_SIZE : HEADER_SIZE + count] = self.under_way[:count]
        del self.under_way[:count]
        self.peer.receiver.on_bytes(HEADER_SIZE, HEADER_SIZE + count)

    def free(self) -> None:
        """The kernel takes more."""
        self._take()
        if not self.tail:
            self.blocked = False
            self.receiver.on_writable()


def linked(engine: Engine, *, size: int) -> tuple[Link, Link]:
    one, other = Link(engine, size=size), Link(engine, size=size)
    one.peer, other.peer = other, one
    return one, other


class World:
    """Takes steps in an order that `seed` chooses, until nothing can go on. Links and the test's own acts are of very
    different speed, so that queues fill and windows close."""

    def __init__(self, seed: int) -> None:
        self.loop = StepLoop()
        self.engine = Engine(self.loop, lambda: 1000.0)  # type: ignore[arg-type]
        self.links: list[Link] = []
        self.random = random.Random(seed)

    def link(self, *, size: int) -> tuple[Link, Link]:
        ends = linked(self.engine, size=size)
        self.links += ends
        return ends

    def run(self, *more: Callable[[], bool]) -> None:
        """Take steps, those of the test among them, until none is left; each says whether it could be taken."""
        acts: list[Callable[[], bool]] = [self._call, self._call, *more]
        acts += [partial(self._deliver, link) for link in self.links]
        acts += [partial(self._free, link) for link in self.links]
        speeds = [2.0 ** self.random.uniform(-6, 0) for _ in acts]
        while True:
            (act,) = self.random.choices(acts, speeds)
            if not act() and not any(act() for act in acts):
                return

    def _call(self) -> bool:
        """What was to be called soon, or a socket that can go on."""
        ready: list[Callable[[], None]] = [partial(self.loop.call_ready, *what) for what in self.loop.ready()]
        if self.loop.soon:
            ready.append(self.loop.call_next)
        if ready:
            self.random.choice(ready)()
        return bool(ready)

    def _deliver(self, link: Link) -> bool:
        if not link.can_deliver:
            return False
        link.deliver(int(2 ** self.random.uniform(0, 19)))
        return True

    @staticmethod
    def _free(link: Link) -> bool:
        if not link.can_free:
            return False
        link.free()
        return True
