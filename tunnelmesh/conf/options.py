"""Which configuration a command reads: `--config`, then TUNNELMESH_CONFIG, then the packaged place."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from tunnelmesh.conf.load import Loaded, load_agent_config, load_server_config
from tunnelmesh.conf.schema import AgentConfig, ServerConfig

VARIABLE = "TUNNELMESH_CONFIG"
SERVER_FILE = Path("/etc/tunnelmesh/server.yaml")
AGENT_FILE = Path("/etc/tunnelmesh/agent.yaml")


def add_server_options(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser, SERVER_FILE)
    parser.add_argument("--node-id", metavar="ID", help=_("use this id instead of node.id; it is written nowhere"))


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser, AGENT_FILE)


def add_config_option(parser: argparse.ArgumentParser, default: Path) -> None:
    text = _("default: $%(variable)s, or %(path)s") % {"variable": VARIABLE, "path": default}
    parser.add_argument("--config", metavar="PATH", help=text)


def server_config(options: Mapping[str, Any]) -> Loaded[ServerConfig]:
    """Load what the parsed options name. Raises DomainError; a command then exits with REFUSED_CONFIG."""
    node_id = options.get("node_id")
    return load_server_config(_path(options, SERVER_FILE), cli={} if node_id is None else {"node.id": node_id})


def agent_config(options: Mapping[str, Any]) -> Loaded[AgentConfig]:
    """Load what the parsed options name, in the manner of ``server_config``."""
    return load_agent_config(_path(options, AGENT_FILE))


def _path(options: Mapping[str, Any], default: Path) -> Path:
    return Path(options.get("config") or os.environ.get(VARIABLE) or default).absolute()
