"""Which port of 127.0.0.1 each listener of a mesh has."""

from __future__ import annotations

from dataclasses import dataclass

from relay.demo.ports import LOOPBACK, free_ports
from relay.demo.shape import Entry, Shape


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The listeners of one node, its entries aside."""

    relay: int
    agents: int
    admin: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The ports of a whole mesh, for its whole life: a process that is restarted gets its own again."""

    nodes: dict[str, NodePorts]
    entries: dict[str, int]
    service: int
    console: int

    @classmethod
    def choose(cls, shape: Shape) -> Layout:
        """Pick free ports for every listener of ``shape``."""
        ports = iter(free_ports(3 * len(shape.nodes) + len(shape.entries) + 2))
        return cls(
            nodes={node: NodePorts(next(ports), next(ports), next(ports)) for node in shape.nodes},
            entries={entry.name: next(ports) for entry in shape.entries},
            service=next(ports),
            console=next(ports),
        )

    def target(self, entry: Entry) -> str:
        """The address that ``entry`` leads to."""
        return entry.target or address(self.service)


def address(port: int) -> str:
    """``port`` as the configuration and the database write it."""
    return f"{LOOPBACK}:{port}"
