"""Nodes, tokens and leases in the database, through the product's own services."""

from __future__ import annotations

from datetime import datetime, timedelta

from nodes.facts import Registration
from nodes.models import Heartbeat, ServerNode
from nodes.services.heartbeat import node_heartbeat
from nodes.services.registration import node_register
from tokens.models import ServiceToken
from tokens.principal import TokenType
from tokens.scope import AgentScope, Scope
from tokens.services.service_tokens import token_issue
from tunnelmesh.common.secrets import Secret
from tunnelmesh.db.clock import database_now

FINGERPRINT = "sha256:" + "ab" * 32


def register(node_id: str, *, address: str = "node.example:9443") -> Registration:
    return node_register(
        node_id,
        address=address,
        version="0.1",
        certificate_not_after=None,
        certificate_fingerprint=FINGERPRINT,
    )


def live_node(node_id: str, *, address: str = "node.example:9443") -> Registration:
    """A node that has registered and beaten once."""
    registration = register(node_id, address=address)
    node_heartbeat(node_id, epoch=registration.epoch)
    return registration


def let_expire(node_id: str, *, seconds_ago: float = 0) -> None:
    """Move the node's expiry into the past, as if its heartbeats had ceased."""
    expires_at = database_now() - timedelta(seconds=seconds_ago)
    Heartbeat.objects.filter(server_node_id=node_id).update(expires_at=expires_at)


def disable(node_id: str) -> None:
    ServerNode.objects.filter(id=node_id).update(enabled=False)


def issue(scope: Scope, *, name: str = "token", expires_at: datetime | None = None) -> tuple[ServiceToken, Secret]:
    """A token of the type that fits the scope."""
    kind = TokenType.AGENT if isinstance(scope, AgentScope) else TokenType.SERVER_NODE
    return token_issue(kind, name=name, scope=scope, expires_at=expires_at, actor="test")
