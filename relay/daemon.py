"""The life of a Server node: start in order, serve, end in order, and say with what exit code.

Order of the start: TLS files, sockets, registration, first heartbeat, entries, doors. So a mistake in the files or a
port that is taken is found before the database hears of a new epoch, and an older process goes on undisturbed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from relay.metrics import Metrics
from relay.net.acceptor import BindError, bind
from relay.net.engine import Engine
from relay.net.tasks import Tasks
from relay.node.certificates import NodeFiles, node_files
from relay.node.node import Node
from relay.node.peers import Credentials
from relay.node.runtime import Me, Runtime
from relay.node.threads import Threads
from relay.process import settle_memory
from relay.registry import Registry
from tunnelmesh import __version__
from tunnelmesh.common.clock import Clock, SystemClock
from tunnelmesh.common.errors import DomainError, ExitCode, Refused
from tunnelmesh.conf.address import Address
from tunnelmesh.conf.schema import ServerConfig

log = logging.getLogger(__name__)


class Daemon:
    """One Server node. `node` is there, and `started` set, once it serves."""

    node: Node

    def __init__(self, config: ServerConfig, *, node_id: str, registry: Registry, clock: Clock | None = None) -> None:
        self.started = asyncio.Event()
        self._config = config
        self._node_id = node_id
        self._registry = registry
        self._clock = clock or SystemClock()

    async def run(self, stop: asyncio.Event) -> ExitCode:
        """Serve until `stop` is set, then drain; FAILED when a part has failed, IDENTITY_CONFLICT when a newer process
        with this id has started. Raises DomainError when it cannot start."""
        files = node_files(self._config, node_id=self._node_id)
        credentials = self._credentials(files)
        with _listening(self._addresses(files)) as sockets:
            threads, tasks = Threads(), Tasks()
            engine = Engine(asyncio.get_running_loop(), self._clock.monotonic)
            try:
                runtime = Runtime(
                    me=await self._register(threads, files),
                    engine=engine,
                    tasks=tasks,
                    threads=threads,
                    registry=self._registry,
                    clock=self._clock,
                    limits=self._config.server.limits,
                    metrics=Metrics(),
                )
                self.node = Node(runtime, files=files, credentials=credentials)
                engine.start()
                return await self._serve(stop, sockets, tasks)
            finally:
                await tasks.cancel()
                await engine.close()
                threads.close()

    async def _serve(self, stop: asyncio.Event, sockets: dict[str, list[socket.socket]], tasks: Tasks) -> ExitCode:
        node = self.node
        try:
            await node.start(sockets)
            settle_memory()
            self.started.set()
            log.info("node %s serves", self._node_id)
            code = await self._until_over(stop, tasks)
            if code == ExitCode.OK:
                await node.drain(self._config.server.limits.drain)
            return code
        finally:
            await node.close()
            log.info("node %s has ended", self._node_id)

    async def _until_over(self, stop: asyncio.Event, tasks: Tasks) -> ExitCode:
        stopped = tasks.spawn(stop.wait(), name="wait for stop")
        fenced = tasks.spawn(self.node.fenced.wait(), name="wait for fence")
        await asyncio.wait([stopped, fenced, tasks.failed], return_when=asyncio.FIRST_COMPLETED)
        if fenced.done():
            log.error("a newer process with the id %s has started: this one ends", self._node_id)
            return ExitCode.IDENTITY_CONFLICT
        if tasks.failed.done():
            log.error("a part of this node has failed: %r", tasks.failed.exception())
            return ExitCode.FAILED
        return ExitCode.OK

    async def _register(self, threads: Threads, files: NodeFiles) -> Me:
        address = self._config.server.relay.advertised
        registration = await threads.run(
            self._registry.register_node,
            self._node_id,
            address=str(address) if files.relay and address else "",
            version=__version__,
            certificate_not_after=files.relay.not_after if files.relay else None,
            certificate_fingerprint=files.relay.fingerprint if files.relay else "",
        )
        log.info("node %s registered with epoch %d", self._node_id, registration.epoch)
        return Me(self._node_id, registration.epoch)

    def _credentials(self, files: NodeFiles) -> Credentials | None:
        """What this node shows to its peers, or None in local mode. The token is read once, to find a bad reference
        now and not at the first dial."""
        if files.relay is None:
            return None
        relay = self._config.server.relay
        if relay.node_token is None or relay.advertised is None:
            name = "node_token" if relay.node_token is None else "endpoint"
            raise Refused(
                "incomplete_relay",
                f"cluster mode needs server.relay.{name}, and it is not given",
                hint="give it in server.yaml, or set mode: local; then run: tunnelmesh check_config",
            )
        relay.node_token.resolve()
        context = files.relay.client
        return Credentials(context=lambda: context, token=relay.node_token.resolve)

    def _addresses(self, files: NodeFiles) -> dict[str, Address]:
        server = self._config.server
        addresses = {"admin": server.admin.listen}
        if files.relay is not None:
            addresses["relay"] = server.relay.listen
        if files.agents is not None:
            addresses["agents"] = server.agents.listen
        return addresses


@contextmanager
def _listening(addresses: dict[str, Address]) -> Iterator[dict[str, list[socket.socket]]]:
    """Listening sockets by name; closed at the end. Raises DomainError that names the address which is taken."""
    sockets: dict[str, list[socket.socket]] = {}
    try:
        for name, address in addresses.items():
            sockets[name] = bind(address.host, address.port)
        yield sockets
    except BindError as error:
        raise DomainError(
            "cannot_listen", str(error), hint=f"see who has it: ss -ltnp; or change server.{name}.listen"
        ) from error
    finally:
        for listening in sockets.values():
            for sock in listening:
                sock.close()
