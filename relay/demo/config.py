"""The configuration files of a demo's nodes and agents, as an operator would write them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ruamel.yaml import YAML

from relay.demo.folder import Folder
from relay.demo.layout import Layout, address
from relay.demo.shape import Agent, Shape

DRAIN_SECONDS = 5  # well under what a stop of the whole mesh waits


def node_config(node: str, *, folder: Path, layout: Layout) -> dict[str, Any]:
    """The content of a node's server.yaml."""
    ports, pki = layout.nodes[node], folder / "pki"
    return {
        "mode": "cluster",
        "node": {"id": node, "state_dir": str(folder / "state" / node)},
        "database": {"url": f"sqlite:///{quote(str(folder / 'tunnelmesh.sqlite3'))}"},
        "server": {
            "agents": {
                "listen": address(ports.agents),
                "cert": str(pki / f"{node}-agents.pem"),
                "key": str(pki / f"{node}-agents.key"),
            },
            "relay": {
                "listen": address(ports.relay),
                "endpoint": address(ports.relay),
                "ca": str(pki / "ca.pem"),
                "cert": str(pki / f"{node}.pem"),
                "key": str(pki / f"{node}.key"),
                "node_token": f"file:{folder / 'secrets' / 'node-token'}",
            },
            "admin": {"listen": address(ports.admin)},
            "limits": {"drain": DRAIN_SECONDS},
            "web": {"listen": address(layout.console)},
        },
    }


def agent_config(agent: Agent, *, folder: Path, shape: Shape, layout: Layout, pins: dict[str, str]) -> dict[str, Any]:
    """The content of an agent's agent.yaml; ``pins`` has the pin of each node's agents' listener."""
    return {
        "name": agent.id,
        "servers": [address(layout.nodes[node].agents) for node in agent.nodes],
        "pins": [pins[node] for node in agent.nodes],
        "token": f"file:{folder / 'secrets' / agent.id}",
        "limits": {"drain": DRAIN_SECONDS},
        "allow": sorted({layout.target(entry) for entry in shape.entries if entry.agent == agent.id}),
    }


def as_yaml(content: dict[str, Any], *, about: str) -> str:
    """``content`` as YAML under a comment that says what the file is."""
    text = io.StringIO()
    YAML().dump(content, text)
    return f"# {about}\n{text.getvalue()}"


def write_configs(shape: Shape, layout: Layout, *, folder: Folder, pins: dict[str, str]) -> None:
    """Write one file per node and agent, named after it, into ``folder``."""
    for node in shape.nodes:
        content = node_config(node, folder=folder.path, layout=layout)
        folder.write_private(
            f"{node}.yaml", as_yaml(content, about=f"Server node {node} of this demo; written at every start.")
        )
    for agent in shape.agents:
        content = agent_config(agent, folder=folder.path, shape=shape, layout=layout, pins=pins)
        folder.write_private(
            f"{agent.id}.yaml", as_yaml(content, about=f"Agent {agent.id} of this demo; written at every start.")
        )
