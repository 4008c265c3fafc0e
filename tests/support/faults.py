"""What can go wrong below a session: a TLS socket that wants the other direction, a wire that cuts or swallows."""

import asyncio
import random
import socket
from typing import Any

from tests.support.loopback import tcp_pair


class Fickle:
    """A TLS socket that refuses the next calls of a method with the given errors, then does as it should."""

    def __init__(self, sock: Any) -> None:
        self._socket = sock
        self.refusals: list[tuple[str, type[Exception]]] = []

    def refuse(self, method: str, *errors: type[Exception]) -> None:
        self.refusals += [(method, error) for error in errors]

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._socket, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any) -> Any:
            for number, (method, error) in enumerate(self.refusals):
                if method == name:
                    del self.refusals[number]
                    raise error("as the test wants it")
            return attribute(*args)

        return call


class Wire:
    """Two TCP connections joined by a task for each direction. `left` and `right` are the sockets at its ends.

    `piece` is the most that is passed on at once, chosen anew each time up to it; `cut_after` resets both ends after so
    many bytes from the left; `buffer` bounds what the kernel holds.
    """

    def __init__(
        self, *, piece: int = 65536, cut_after: int | None = None, buffer: int | None = None, seed: int = 0
    ) -> None:
        self.left, self._near = tcp_pair(buffer=buffer)
        self._far, self.right = tcp_pair(buffer=buffer)
        self._piece = piece
        self._random = random.Random(seed)
        self._room = cut_after
        self._flowing = asyncio.Event()
        self._flowing.set()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._carry(self._near, self._far, from_left=True)),
            loop.create_task(self._carry(self._far, self._near, from_left=False)),
        ]

    @property
    def ends(self) -> tuple[socket.socket, socket.socket]:
        return self.left, self.right

    def swallow(self) -> None:
        """From now on nothing arrives any more, and nobody is told: a black hole."""
        self._flowing.clear()

    def heal(self) -> None:
        """What was held back arrives."""
        self._flowing.set()

    async def close(self) -> None:
        """Both ends see the end of their connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._near.close()
        self._far.close()

    async def _carry(self, source: socket.socket, target: socket.socket, *, from_left: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(source, self._random.randint(1, self._piece)):
                await self._flowing.wait()
                if from_left and self._room is not None:
                    data, self._room = data[: self._room], self._room - len(data)
                await loop.sock_sendall(target, data)
                if from_left and self._room is not None and self._room <= 0:
                    self._reset()
                    return
            target.shutdown(socket.SHUT_WR)
        except OSError:
            self._reset()

    def _reset(self) -> None:
        for task in self._tasks:
            task.cancel()  # uvloop keeps a socket open for as long as somebody waits for it
        for sock in (self._near, self._far):
            if sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
