"""The rows of a demo's database, made or found again; runs in the child that `commands.database_command` starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command

from nodes.models import ServerNode
from nodes.services.registration import node_register
from relay.demo.seed import ADMIN_PASSWORD, ADMINISTRATOR, NODE_TOKEN, Route, Seed
from relay.models import Service
from relay.services.publishing import route_change, route_open, service_change, service_publish
from tokens.models import ServiceToken
from tokens.principal import TokenType
from tokens.scope import AgentScope, Fleet, Scope
from tokens.secret import digest
from tokens.services.service_tokens import token_issue
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.address import Address

ACTOR = "demo"


def main(folder: str) -> None:
    """Bring the database up to date with the code, then with the seed in ``folder``."""
    path = Path(folder)
    seed = Seed.read(path)
    call_command("migrate", verbosity=0, interactive=False)
    if seed.console:
        _administrator((path / "secrets" / ADMIN_PASSWORD).read_text(encoding="utf-8"))
    for node in seed.nodes:
        _node(node)
    _token(path / "secrets" / NODE_TOKEN, TokenType.SERVER_NODE, Fleet())
    for agent in seed.agents:
        _token(path / "secrets" / agent, TokenType.AGENT, AgentScope(agent))
    for route in seed.routes:
        _route(route)


def _administrator(password: str) -> None:
    user, _ = User.objects.get_or_create(username=ADMINISTRATOR, defaults={"is_staff": True, "is_superuser": True})
    user.set_password(password)
    user.save(update_fields=["password"])


def _node(node_id: str) -> None:
    """A route needs its node's record before the node itself has started for the first time."""
    if not ServerNode.objects.filter(id=node_id).exists():
        node_register(node_id, address="", version="", certificate_not_after=None, certificate_fingerprint="")


def _token(file: Path, kind: TokenType, scope: Scope) -> None:
    """Issue a token into ``file`` (0600) unless the one in it is known."""
    if file.exists() and ServiceToken.active.filter(digest=digest(Secret(file.read_text(encoding="ascii")))).exists():
        return
    _row, secret = token_issue(kind, name=file.name, scope=scope, actor=ACTOR)
    file.touch(mode=0o600)
    file.write_text(secret.reveal(), encoding="ascii")


def _route(wanted: Route) -> None:
    """A service by the entry's name, and the first route to it; their ports are others at every start."""
    target, listen = Address.parse(wanted.target), Address.parse(wanted.listen)
    leads: dict[str, Any] = {"agent_id": wanted.agent, "host": target.host, "port": target.port}
    opens: dict[str, Any] = {"server_node_id": wanted.node, "host": listen.host, "port": listen.port}
    service = Service.active.filter(name=wanted.name).first()
    if service is None:
        service = service_publish(wanted.name, actor=ACTOR, **leads)
        route_open(service, actor=ACTOR, **opens)
    else:
        service_change(service, actor=ACTOR, **leads)
        route_change(service.routes.earliest("id"), actor=ACTOR, **opens)  # later ones were added in the console
