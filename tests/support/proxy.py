"""A TCP proxy on 127.0.0.1 whose wire can be cut or made silent: what happens to packets between two machines."""

from __future__ import annotations

import asyncio
from typing import Self

from relay.demo.ports import LOOPBACK


class Proxy:
    """Forwards to `port` of this host. `silent` holds every byte back, both ways, without closing anything."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.accepted = 0

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._on_connection, LOOPBACK, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def silence(self) -> None:
        """Hold every byte back from now on."""
        self._flowing.clear()

    def resume(self) -> None:
        """Let go of what was held back."""
        self._flowing.set()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(there_writer)
        for source, target in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.get_running_loop().create_task(self._copy(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._flowing.wait()
                target.write(data)
                await target.drain()
            target.close()
        except OSError:
            target.transport.abort()
