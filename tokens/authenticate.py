"""Presented secret -> Principal or refusal. The only place that judges a presented secret, for every door."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, overload

from tokens.models import ServiceToken
from tokens.principal import AgentPrincipal, Door, NodePrincipal, Principal, TokenRecord, TokenRefusal, judge
from tokens.scope import decode
from tokens.secret import digest, is_well_formed, same_digest
from tokens.services.service_tokens import token_use_record
from tunnelmesh.common.errors import Invalid
from tunnelmesh.common.secrets import Secret

_NO_DIGEST = "0" * 64


@overload
def authenticate(
    secret: Secret | None, door: Literal[Door.RELAY], *, now: datetime
) -> NodePrincipal | TokenRefusal: ...
@overload
def authenticate(
    secret: Secret | None, door: Literal[Door.AGENT], *, now: datetime
) -> AgentPrincipal | TokenRefusal: ...
def authenticate(secret: Secret | None, door: Door, *, now: datetime) -> Principal | TokenRefusal:
    """Judge `secret` at `door`; `now` is the database's clock.

    Every path compares digests exactly once, so that an unknown secret and a wrong one cost the same. The scope is the
    only binding that is read (F3).
    """
    presented = digest(secret or Secret(""))
    token = _find(presented) if secret is not None and is_well_formed(secret) else None
    if not same_digest(token.digest if token else _NO_DIGEST, presented) or token is None:
        return TokenRefusal("no token was presented" if secret is None else "the token is unknown")
    try:
        verdict = judge(_record(token), door, now)
    except Invalid as unreadable:
        return TokenRefusal(f"token {token.id}: {unreadable.message}")
    if not isinstance(verdict, TokenRefusal):
        token_use_record(token, now=now)
    return verdict


def _find(presented: str) -> ServiceToken | None:
    return ServiceToken.objects.filter(digest=presented).defer("legacy_node_id").first()


def _record(token: ServiceToken) -> TokenRecord:
    return TokenRecord(
        token_id=str(token.id),
        type=token.type,
        scope=decode(token.scope),
        expires_at=token.expires_at,
        revoked=token.revoked_at is not None,
        deleted=token.deleted_at is not None,
    )
