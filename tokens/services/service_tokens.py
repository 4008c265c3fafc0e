"""Service tokens: issued once, stored as a digest, always with a scope that somebody chose (F1-F6)."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from nodes.models import ServerNode
from nodes.services.authorisation import authorisation_touch
from tokens.models import ServiceToken
from tokens.principal import PREFIX, TokenType
from tokens.scope import AgentScope, Allowlist, Scope, encode
from tokens.secret import digest, generate, hint
from tunnelmesh.audit import services as audit
from tunnelmesh.common.errors import Invalid
from tunnelmesh.common.ids import is_agent_id
from tunnelmesh.common.secrets import Secret
from tunnelmesh.common.text import check_name
from tunnelmesh.db.clock import database_now

USE_RECORDED_EVERY = timedelta(minutes=1)


@transaction.atomic
def token_issue(
    kind: TokenType,
    *,
    name: str,
    scope: Scope,
    actor: str,
    expires_at: datetime | None = None,
    owner: User | None = None,
    source_address: str = "",
) -> tuple[ServiceToken, Secret]:
    """Create a token and give out its secret, this once. Administrators only (F5): callers check that.

    Raises `Invalid` for a bad name, a scope of another kind, an expiry that has passed, and an allowlist with a member
    that is unknown, disabled or deleted (F6).
    """
    now = database_now()
    check_name(name)
    _check_scope(kind, scope)
    if expires_at is not None and expires_at <= now:
        text = _("expires_at %(moment)s is not in the future") % {"moment": expires_at.isoformat()}
        raise Invalid("past_deadline", text)
    secret = generate(PREFIX[kind], secrets.token_bytes)
    token = ServiceToken.objects.create(
        type=kind.value,
        name=name,
        prefix=hint(secret),
        digest=digest(secret),
        scope=encode(scope),
        owner=owner,
        expires_at=expires_at,
        created_at=now,
        updated_at=now,
    )
    authorisation_touch()
    audit.record(
        "token.issued",
        actor=actor,
        target=f"service_token:{token.id}",
        after={"type": kind.value, "name": name, "hint": token.prefix, "scope": token.scope, "expires_at": expires_at},
        source_address=source_address,
    )
    return token, secret


def token_use_record(token: ServiceToken, *, now: datetime) -> None:
    """At most one write a minute, whoever asks and how often: all others match no row (R17)."""
    before = now - USE_RECORDED_EVERY
    if token.last_used_at is None or token.last_used_at <= before:
        due = Q(last_used_at__isnull=True) | Q(last_used_at__lte=before)
        ServiceToken.objects.filter(due, id=token.id).update(last_used_at=now)


def _check_scope(kind: TokenType, scope: Scope) -> None:
    if (kind is TokenType.AGENT) != isinstance(scope, AgentScope):
        values = {"type": kind.value, "scope": type(scope).__name__}
        text = _("a token of type %(type)s cannot have a scope of %(scope)s") % values
        hint = _("give --fleet or --node with type server_node, --agent with type agent")
        raise Invalid("bad_scope", text, hint=hint)
    if isinstance(scope, AgentScope) and not is_agent_id(scope.agent_id):
        text = _("%(id)r is not an agent id") % {"id": scope.agent_id[:80]}
        raise Invalid("bad_scope", text, hint=_("use a-z, 0-9 and '-', at most 63"))
    if isinstance(scope, Allowlist):
        _check_members(scope)


def _check_members(scope: Allowlist) -> None:
    if not scope.node_ids:
        hint = _("name a node, or choose the fleet")
        raise Invalid("bad_scope", _("an allowlist without a node admits nobody"), hint=hint)
    found = {node.id: node for node in ServerNode.objects.filter(id__in=scope.node_ids)}
    unusable = [f"{node_id} ({why})" for node_id in sorted(scope.node_ids) if (why := _unusable(found.get(node_id)))]
    if unusable:
        raise Invalid(
            "bad_scope_member",
            _("these nodes cannot be in a scope: %(nodes)s") % {"nodes": ", ".join(unusable)},
            hint=_("list only nodes that exist, are enabled and are not deleted"),
        )


def _unusable(node: ServerNode | None) -> str | None:
    if node is None:
        return _("unknown")
    if node.deleted_at is not None:
        return _("deleted")
    return None if node.enabled else _("disabled")
