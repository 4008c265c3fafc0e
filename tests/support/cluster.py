"""A fleet inside the test's process: real daemons and agents, real TLS on 127.0.0.1, the test's own database.

What a fault needs a process for (kill -9, SIGSTOP) is tested in tests/e2e; everything else is quicker here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from django.db import connections

from nodes.models import ServerNode
from relay.agent import Agent
from relay.daemon import Daemon
from relay.demo.pki import Authority
from relay.demo.ports import LOOPBACK, free_ports
from relay.net.engine import Engine
from relay.node.node import Node
from relay.registry import Registry
from relay.services.publishing import route_open, service_publish
from tests.support.fleet import issue, register
from tokens.scope import AgentScope, Fleet
from tunnelmesh.common.errors import DomainError, ExitCode
from tunnelmesh.conf.address import Address
from tunnelmesh.conf.schema import (
    AdminSection,
    AgentConfig,
    AgentsSection,
    RelaySection,
    ServerConfig,
    ServerLimits,
    ServerSection,
    SessionLimits,
)
from tunnelmesh.conf.secretref import SecretRef

P = ParamSpec("P")
T = TypeVar("T")
SECONDS = 10.0
"""The longest that anything here is waited for."""


async def eventually(holds: Callable[[], Any], what: str = "") -> None:
    """Return once `holds()` is true; a condition that only polling shows."""
    try:
        async with asyncio.timeout(SECONDS):
            while not holds():  # noqa: ASYNC110 - what is waited for is a fact of the product, which sets no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited {SECONDS:g} s in vain: {what or holds}") from None


@dataclass
class Running:
    """A daemon or an agent and the task it runs in."""

    task: asyncio.Task[ExitCode]
    stop: asyncio.Event

    async def end(self) -> ExitCode:
        """As SIGTERM does."""
        self.stop.set()
        return await asyncio.wait_for(self.task, SECONDS)


@dataclass
class RunningNode(Running):
    daemon: Daemon
    config: ServerConfig

    @property
    def node(self) -> Node:
        return self.daemon.node

    @property
    def relay_port(self) -> int:
        return self.config.server.relay.listen.port

    @property
    def agents_port(self) -> int:
        return self.config.server.agents.listen.port

    @property
    def engine(self) -> Engine:
        return self.node.runtime.engine


@dataclass
class RunningAgent(Running):
    agent: Agent

    async def connected(self, sessions: int = 1) -> None:
        await eventually(lambda: self.sessions >= sessions, f"{sessions} sessions of {self.agent.config.name}")

    @property
    def why_down(self) -> str:
        """Why it has no session to the last of its servers."""
        return str(self.agent.links[-1].link.down) if self.agent.links else ""

    @property
    def sessions(self) -> int:
        return sum(each.link.session is not None for each in self.agent.links)


class Fickle(Registry):
    """A registry whose database can go away."""

    away = False

    def __getattribute__(self, name: str) -> Any:
        if name != "away" and self.away:
            raise DomainError("database_unavailable", "the database cannot be used")
        return super().__getattribute__(name)


@dataclass
class Cluster:
    """Everything that it starts ends with `close`."""

    folder: Path
    authority: Authority = field(default_factory=lambda: Authority.new("fleet"))
    running: list[Running] = field(default_factory=list)
    node_limits: dict[str, Any] = field(default_factory=dict)
    agent_limits: dict[str, Any] = field(default_factory=lambda: {"reconnect_first": 0.1})

    def __post_init__(self) -> None:
        self._database = ThreadPoolExecutor(1, thread_name_prefix="test database")
        self.authority.pair.write(self.folder, "ca")

    async def do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what uses the ORM, in a thread of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._database, lambda: call(*args, **kwargs))

    async def eventually(self, holds: Callable[[], bool]) -> None:
        """Return once `holds()`, which asks the database, is true."""
        async with asyncio.timeout(SECONDS):
            while not await self.do(holds):  # noqa: ASYNC110 - the database sets no event
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        """End everything, agents first; the last word of each task is heard."""
        for each in reversed(self.running):
            if not each.task.done():
                await each.end()
        await self.do(connections.close_all)
        self._database.shutdown()

    # -- nodes -----------------------------------------------------------------------------------------------------

    async def config(self, node_id: str, **limits: Any) -> ServerConfig:
        """The configuration of a node in this fleet, with its files."""
        relay_port, agents_port = free_ports(2)
        self.authority.issue(node_id, dns=(node_id,), ips=(LOOPBACK,)).write(self.folder, node_id)
        self.authority.issue("agents", dns=("agents.example",), ips=(LOOPBACK,)).write(self.folder, f"{node_id}-agents")
        token = await self.secret("node-token", Fleet())
        relay = RelaySection(
            listen=Address(LOOPBACK, relay_port),
            ca=self.folder / "ca.pem",
            cert=self.folder / f"{node_id}.pem",
            key=self.folder / f"{node_id}.key",
            node_token=token,
        )
        agents = AgentsSection(
            listen=Address(LOOPBACK, agents_port),
            cert=self.folder / f"{node_id}-agents.pem",
            key=self.folder / f"{node_id}-agents.key",
        )
        return ServerConfig(
            server=ServerSection(
                relay=relay,
                agents=agents,
                admin=AdminSection(listen=Address(LOOPBACK, 0)),
                limits=ServerLimits(**{"drain": 2.0, "reconnect_first": 0.1} | self.node_limits | limits),
            )
        )

    async def start_node(
        self, node_id: str, *, config: ServerConfig | None = None, registry: Registry | None = None, **limits: Any
    ) -> RunningNode:
        """A node that serves."""
        config = config or await self.config(node_id, **limits)
        daemon = Daemon(config, node_id=node_id, registry=registry or Registry())
        running = self._run(RunningNode, daemon.run, daemon=daemon, config=config)
        started = asyncio.ensure_future(daemon.started.wait())
        await asyncio.wait([started, running.task], timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if running.task.done():
            await running.task
        return running

    async def publish(self, agent_id: str, port: int, *, node: str, name: str = "web") -> int:
        """A service behind the agent and its entry on `node`; gives the entry's port."""
        (entry,) = free_ports(1)
        await self.do(self._publish, agent_id, port, node, name, entry)
        return entry

    def _publish(self, agent_id: str, port: int, node: str, name: str, entry: int) -> None:
        if not ServerNode.objects.filter(id=node).exists():
            register(node)
        service = service_publish(name, agent_id=agent_id, host=LOOPBACK, port=port, actor="test")
        route_open(service, host=LOOPBACK, port=entry, actor="test", server_node_id=node)

    # -- agents ----------------------------------------------------------------------------------------------------

    async def agent_config(self, agent_id: str, ports: Iterable[int], **changes: Any) -> AgentConfig:
        """The configuration of an agent that dials these ports and may reach all of this host."""
        config = AgentConfig(
            name=agent_id,
            servers=tuple(Address(LOOPBACK, port) for port in ports),
            token=await self.secret(agent_id, AgentScope(agent_id)),
            ca=self.folder / "ca.pem",
            allow=(f"{LOOPBACK}:*",),
            limits=SessionLimits(**{"drain": 2.0} | self.agent_limits),
        )
        return replace(config, **changes)

    async def start_agent(self, agent_id: str, *nodes: RunningNode, **changes: Any) -> RunningAgent:
        """An agent that is connected to all of `nodes`."""
        ports = [each.agents_port for each in nodes]
        running = await self.run_agent(await self.agent_config(agent_id, ports, **changes))
        await running.connected(len(nodes))
        return running

    async def run_agent(self, config: AgentConfig) -> RunningAgent:
        """An agent, whether it gets connected or not."""
        agent = Agent(config)
        return self._run(RunningAgent, agent.run, agent=agent)

    async def secret(self, name: str, scope: Fleet | AgentScope) -> SecretRef:
        """A token in a file, issued once for each name."""
        file = self.folder / name
        if not file.exists():
            _, token = await self.do(issue, scope, name=name)
            file.touch(mode=0o600)
            file.write_text(token.reveal())
        return SecretRef.parse(f"file:{file}")

    def _run(self, kind: type[Any], main: Callable[[asyncio.Event], Any], **parts: Any) -> Any:
        stop = asyncio.Event()
        running = kind(task=asyncio.ensure_future(main(stop)), stop=stop, **parts)
        self.running.append(running)
        return running


def open_sockets() -> int:
    """How many sockets this process has."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += str(descriptor.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue  # the folder's own descriptor, closed meanwhile
    return count


def other_tasks() -> set[str]:
    """The names of every task but the running one."""
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
