"""Which port of 127.0.0.1 each listener of a mesh has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relay.demo.ports import LOOPBACK
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
    def of(cls, shape: Shape, ports: Iterable[int]) -> Layout:
        """Give every listener of ``shape`` one of ``ports``, of which there are `ports_needed`."""
        left = iter(ports)
        return cls(
            nodes={node: NodePorts(next(left), next(left), next(left)) for node in shape.nodes},
            entries={entry.name: next(left) for entry in shape.entries},
            service=next(left),
            console=next(left),
        )

    def target(self, entry: Entry) -> str:
        """The address that ``entry`` leads to."""
        return entry.target or address(self.service)


def ports_needed(shape: Shape) -> int:
    """How many ports a mesh of that shape takes, a service and a console included."""
    return 3 * len(shape.nodes) + len(shape.entries) + 2


def address(port: int) -> str:
    """``port`` as the configuration and the database write it."""
    return f"{LOOPBACK}:{port}"
