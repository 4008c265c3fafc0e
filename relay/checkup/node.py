"""Everything about a node's configuration that needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.utils.translation import gettext as _

from nodes.identity import find_identity
from relay.checkup.certificates import agents_files, relay_files
from relay.checkup.database import database
from relay.checkup.environment import unknown_variables
from relay.checkup.files import configuration_file
from relay.checkup.finding import Finding, failed, passed, skipped
from relay.checkup.listeners import listeners
from relay.checkup.tokens import token
from tunnelmesh.common.errors import DomainError
from tunnelmesh.conf.load import Loaded
from tunnelmesh.conf.schema import ServerConfig
from tunnelmesh.conf.secretref import SecretRef


def check_node(loaded: Loaded[ServerConfig], *, now: datetime, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every finding about a configuration that could be loaded. Creates nothing, an identity least of all (T6)."""
    config = loaded.value
    relay = config.server.relay
    if loaded.path:
        literal = relay.node_token is not None and relay.node_token.is_literal
        yield configuration_file(loaded.path, holds_secret=literal)
    yield from unknown_variables(environ)
    node_id, finding = _identity(loaded)
    yield finding
    yield from listeners(config)
    if config.mode == "cluster":
        yield from relay_files(relay, node_id=node_id, now=now)
        yield from _node_token(relay.node_token)
    else:
        yield skipped("server.relay", _("local mode has no relay"))
    yield from agents_files(config.server.agents, now=now)
    yield from database(config.database.url)


def _identity(loaded: Loaded[ServerConfig]) -> tuple[str | None, Finding]:
    try:
        identity = find_identity(loaded)
    except DomainError as error:
        return None, failed("node.id", error.message, error.hint)
    if identity is None:
        config = f" --config {loaded.path}" if loaded.path else ""
        hint = _("Run: tunnelmesh init_node_id%(config)s") % {"config": config}
        return None, failed("node.id", _("this node has no identity yet"), hint)
    text = _("%(id)s, from the %(source)s") % {"id": identity.node_id, "source": identity.source}
    return identity.node_id, passed("node.id", text)


def _node_token(ref: SecretRef | None) -> Iterator[Finding]:
    check = "server.relay.node_token"
    if ref is None:
        hint = _("Run on a node of the fleet: tunnelmesh issue_token --type server_node --name fleet --fleet")
        yield failed(check, _("not given, and cluster mode needs it"), hint)
    else:
        yield from token(check, ref, prefixes=("tmn_",))
