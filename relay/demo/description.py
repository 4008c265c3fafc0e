"""demo.json: everything that a script needs to drive a running demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relay.demo.layout import address
from relay.demo.process import Process
from relay.demo.seed import ADMIN_PASSWORD, ADMINISTRATOR, NODE_TOKEN
from relay.demo.topology import Topology


def describe(mesh: Topology) -> dict[str, Any]:
    """Addresses, paths, users, tokens, process ids (null: does not run) and commands of ``mesh`` as they are now."""
    layout, folder = mesh.layout, mesh.folder.path
    description: dict[str, Any] = {
        "state": str(folder),
        "running": any(mesh.pids.values()),
        "pids": mesh.pids,
        "nodes": [_node(mesh, node) for node in mesh.shape.nodes],
        "agents": [_agent(mesh, agent.id) for agent in mesh.shape.agents],
        "entries": [_entry(mesh, entry.name) for entry in mesh.shape.entries],
        "ca": str(folder / "pki" / "ca.pem"),
        "database": str(folder / "tunnelmesh.sqlite3"),
        "logs": str(folder / "logs"),
        "token_file": str(folder / "secrets" / NODE_TOKEN),
        "tokens": {"server_node": _secret(folder, NODE_TOKEN)},
    }
    description["agent"] = description["agents"][0]
    description["entry"] = description["entries"][0]
    description["tokens"]["agent"] = _secret(folder, mesh.shape.agents[0].id)
    if mesh.shape.has_service:
        service = mesh.process("service")
        description["service"] = {"url": f"http://{address(layout.service)}/", **_process(service)}
    if mesh.shape.console:
        url = f"http://{address(layout.console)}/"
        description["web"] = {"url": url, "admin_url": f"{url}admin/", **_process(mesh.process("console"))}
        description["admin"] = {"username": ADMINISTRATOR, "password": _secret(folder, ADMIN_PASSWORD)}
    return description


def _node(mesh: Topology, node: str) -> dict[str, Any]:
    ports, folder = mesh.layout.nodes[node], mesh.folder.path
    return {
        "id": node,
        "relay": address(ports.relay),
        "agents": address(ports.agents),
        "admin": address(ports.admin),
        "config": str(folder / f"{node}.yaml"),
        "cert": str(folder / "pki" / f"{node}.pem"),
        "key": str(folder / "pki" / f"{node}.key"),
        "entries": [entry.name for entry in mesh.shape.entries if entry.node == node],
        **_process(mesh.process(node)),
    }


def _agent(mesh: Topology, agent: str) -> dict[str, Any]:
    config = mesh.folder.path / f"{agent}.yaml"
    return {"id": agent, "config": str(config), **_process(mesh.process(agent))}


def _entry(mesh: Topology, name: str) -> dict[str, Any]:
    host, port = mesh.entries[name]
    return {"name": name, "host": host, "port": port, "url": f"http://{host}:{port}/"}


def _process(process: Process) -> dict[str, Any]:
    pid = process.pid if process.running else None
    return {"pid": pid, "command": list(process.command), "log": str(process.log)}


def _secret(folder: Path, name: str) -> str | None:
    path = folder / "secrets" / name
    return path.read_text(encoding="utf-8") if path.exists() else None
