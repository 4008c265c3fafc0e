"""What a mesh consists of, before it has ports, files and processes; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent and the nodes to which it dials out."""

    id: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A TCP port on ``node`` that leads through ``agent`` to ``target`` ("host:port"; None: the built-in service)."""

    name: str
    node: str
    agent: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """Which nodes, agents and entries there are, and whether the web console runs beside them."""

    nodes: tuple[str, ...]
    agents: tuple[Agent, ...]
    entries: tuple[Entry, ...]
    console: bool = False

    @property
    def has_service(self) -> bool:
        """Whether an entry leads to the built-in service."""
        return any(entry.target is None for entry in self.entries)


def two_nodes(*, target: str | None = None, console: bool = False) -> Shape:
    """User -> node-a -> node-b -> agent-1 -> target: the shortest way that crosses two nodes."""
    return Shape(
        nodes=("node-a", "node-b"),
        agents=(Agent("agent-1", nodes=("node-b",)),),
        entries=(Entry("web", node="node-a", agent="agent-1", target=target),),
        console=console,
    )


def one_node(*, target: str | None = None) -> Shape:
    """User -> node-b -> agent-1 -> target."""
    return Shape(
        nodes=("node-b",),
        agents=(Agent("agent-1", nodes=("node-b",)),),
        entries=(Entry("web", node="node-b", agent="agent-1", target=target),),
    )
