"""What the database of a mesh must hold, handed to the child that writes it (`relay.demo.rows`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from relay.demo.folder import Folder
from relay.demo.layout import Layout, address
from relay.demo.shape import Shape

FILE = "seed.json"
ADMINISTRATOR = "admin"
ADMIN_PASSWORD, NODE_TOKEN = "admin-password", "node-token"


@dataclass(frozen=True, slots=True)
class Route:
    """An entry with all its addresses."""

    name: str
    node: str
    listen: str
    agent: str
    target: str


@dataclass(frozen=True, slots=True)
class Seed:
    """Rows to find or to make. Secrets go through files of the folder, never through this."""

    console: bool
    nodes: list[str]
    agents: list[str]
    routes: list[Route]

    @classmethod
    def of(cls, shape: Shape, layout: Layout) -> Self:
        """The rows of a shape that has its ports."""
        routes = [
            Route(entry.name, entry.node, address(layout.entries[entry.name]), entry.agent, layout.target(entry))
            for entry in shape.entries
        ]
        return cls(shape.console, list(shape.nodes), [agent.id for agent in shape.agents], routes)

    def write(self, folder: Folder) -> None:
        """Put it into the folder."""
        folder.write_private(FILE, json.dumps(asdict(self), indent=2))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what `write` put there."""
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return cls(**content | {"routes": [Route(**route) for route in content["routes"]]})
