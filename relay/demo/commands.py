"""The command lines of a mesh's processes: the ones that an operator would type."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from relay.demo.layout import Layout, address
from relay.demo.shape import Shape

ROOT = Path(__file__).resolve().parents[2]
MANAGE = (sys.executable, str(ROOT / "manage.py"))
PRODUCTION, DEVELOPMENT = "tunnelmesh.settings.production", "tunnelmesh.settings.dev"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command's words, and what it needs in its environment beside what every process of the mesh gets."""

    words: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


def commands(shape: Shape, layout: Layout, *, folder: Path) -> dict[str, CommandLine]:
    """The command line of each process by name, in the order in which they are best started."""
    found = {}
    if shape.has_service:
        found["service"] = CommandLine((sys.executable, "-m", "relay.demo.service", str(layout.service)))
    for node in shape.nodes:
        found[node] = _daemon("run_relay", folder / f"{node}.yaml")
    for agent in shape.agents:
        found[agent.id] = _daemon("run_agent", folder / f"{agent.id}.yaml")
    if shape.console:
        found["console"] = _console(layout, config=folder / f"{shape.nodes[0]}.yaml")
    return found


def database_command(shape: Shape, *, folder: Path) -> CommandLine:
    """Migrate and write the rows that ``folder`` has a seed for: one start of Python instead of one per manage.py."""
    code = "import sys, django; django.setup(); from relay.demo.rows import main; main(sys.argv[1])"
    env = {"DJANGO_SETTINGS_MODULE": PRODUCTION, "TUNNELMESH_CONFIG": str(folder / f"{shape.nodes[0]}.yaml")}
    return CommandLine((sys.executable, "-c", code, str(folder)), env)


def _daemon(command: str, config: Path) -> CommandLine:
    return CommandLine((*MANAGE, command, "--config", str(config)), {"DJANGO_SETTINGS_MODULE": PRODUCTION})


def _console(layout: Layout, *, config: Path) -> CommandLine:
    """gunicorn under the development settings, because production's insist on https."""
    words = ("-m", "gunicorn", "tunnelmesh.wsgi", "--bind", address(layout.console), "--threads", "4")
    env = {"DJANGO_SETTINGS_MODULE": DEVELOPMENT, "TUNNELMESH_CONFIG": str(config)}
    return CommandLine((sys.executable, *words, "--no-control-socket"), env)
