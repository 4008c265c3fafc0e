"""Token types, the doors they open, and the principals behind them; pure.

`judge` is the one table of types x doors (R20): what is not listed is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tokens.scope import AgentScope, Allowlist, Fleet, NodeScope, Scope


class TokenType(StrEnum):
    SERVER_NODE = "server_node"
    AGENT = "agent"
    CLIENT = "client"


class Door(StrEnum):
    """A place where a secret is presented: the upgrade requests of design.md section 3."""

    RELAY = "relay"
    AGENT = "agent"


OPENS: dict[str, frozenset[Door]] = {
    TokenType.SERVER_NODE: frozenset({Door.RELAY}),
    TokenType.AGENT: frozenset({Door.AGENT}),
    TokenType.CLIENT: frozenset(),
}


PREFIX: dict[TokenType, str] = {TokenType.SERVER_NODE: "tmn_", TokenType.AGENT: "tma_", TokenType.CLIENT: "tmc_"}


@dataclass(frozen=True, slots=True)
class NodePrincipal:
    """A holder of a `server_node` token; which node it is, the certificate says."""

    token_id: str
    scope: NodeScope
    token_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class AgentPrincipal:
    agent_id: str
    token_id: str
    token_expires_at: datetime | None


Principal = NodePrincipal | AgentPrincipal


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """Why a secret opens nothing here; the reason is for the log, the caller hears the same for all of them."""

    reason: str


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The columns of a token that a judgement needs."""

    token_id: str
    type: str
    scope: Scope
    expires_at: datetime | None
    revoked: bool
    deleted: bool


def judge(token: TokenRecord, door: Door, now: datetime) -> Principal | TokenRefusal:
    """May this token pass this door at `now` (the database's clock)? An expiry equal to now has passed."""
    if problem := _problem(token, door, now):
        return TokenRefusal(f"token {token.token_id} {problem}")
    match door, token.scope:
        case Door.RELAY, Fleet() | Allowlist() as scope:
            return NodePrincipal(token.token_id, scope, token.expires_at)
        case Door.AGENT, AgentScope(agent_id):
            return AgentPrincipal(agent_id, token.token_id, token.expires_at)
        case _:
            return TokenRefusal(f"token {token.token_id} has a scope that does not fit its type")


def _problem(token: TokenRecord, door: Door, now: datetime) -> str | None:
    if token.deleted:
        return "is deleted"
    if token.revoked:
        return "is revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return f"expired at {token.expires_at.isoformat()}"
    if door not in OPENS.get(token.type, ()):
        return f"of type {token.type} does not open /{door}"
    return None
