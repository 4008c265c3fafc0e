"""The admission checks: claim + facts + now -> Admitted or Refusal, in one order, with one code each; pure.

The table is design.md section 3 (F8-F11): row 1, the form of the heads, is the upgrade parser's; rows 2-9 are here.
The caller is told status, code and `detail`; `reason` and `hint` are for log, metrics and `diagnose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tunnelmesh.common.secrets import Secret

RETRY_AFTER_SECONDS = 5
_STATUS = {"unauthenticated": 401, "forbidden": 403, "stale": 412, "busy": 503, "unavailable": 503}
_DETAIL = {
    "unauthenticated": "The certificate or the token does not identify a member of this fleet.",
    "forbidden": "This principal may not connect here.",
    "stale": "The node's record has expired or a newer process took its place.",
    "busy": "No capacity for another session.",
    "unavailable": "The facts for this decision cannot be read now.",
}
_CHECKS = {
    0: "facts",
    2: "certificate",
    3: "token",
    4: "record",
    5: "identity",
    6: "scope",
    7: "lifecycle",
    8: "freshness",
    9: "capacity",
}


class NodeScope(Protocol):
    """Which nodes a token serves; the two shapes are `tokens.scope.Fleet` and `Allowlist`."""

    def admits(self, node_id: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """What a caller at `/relay` presents. `san_ids` are its certificate's DNS SANs, verbatim."""

    claimed_id: str
    epoch: int
    token: Secret | None
    san_ids: tuple[str, ...]
    fingerprint: str
    source: str


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """A presented secret that `tokens.authenticate` found good for this door."""

    token_id: str
    scope: NodeScope
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenProblem:
    """Why `tokens.authenticate` refused the presented secret."""

    reason: str


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """A node's record; `heartbeat_epoch` and `expires_at` are its last heartbeat's, None before the first."""

    enabled: bool
    deleted: bool
    epoch: int
    heartbeat_epoch: int | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    token: TokenFacts | TokenProblem
    record: RecordFacts | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admitted node and the facts that its session stands on."""

    node_id: str
    epoch: int
    token_id: str
    token_expires_at: datetime | None
    record_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused caller; `check` is the row of the table in design.md section 3, 0 for unknown facts."""

    check: int
    code: str
    reason: str
    hint: str

    @property
    def check_name(self) -> str:
        """One word for the row, for metrics and records."""
        return _CHECKS[self.check]

    @property
    def status(self) -> int:
        return _STATUS[self.code]

    @property
    def detail(self) -> str:
        """The text for the caller: the same for every reason behind a code, so that it teaches a stranger nothing."""
        return _DETAIL[self.code]

    @property
    def retry_after(self) -> int | None:
        """Seconds for the `Retry-After` field, where there is one."""
        return RETRY_AFTER_SECONDS if self.status == 503 else None


def certificate_node_id(dns_sans: tuple[str, ...]) -> str | None:
    """The node id that a certificate carries: its one dot-less DNS SAN, or None when there is none or several.

    Names with a dot are host names and are ignored; nothing is folded, trimmed or matched as a wildcard (R9).
    """
    dotless = [name for name in dns_sans if "." not in name]
    return dotless[0] if len(dotless) == 1 else None


def admit(claim: NodeClaim, facts: NodeFacts | None, now: datetime, *, has_capacity: bool) -> Admitted | Refusal:
    """Judge one caller at `/relay`. `now` is the database's clock; facts that are None (unknown) admit nobody."""
    san = certificate_node_id(claim.san_ids)
    if san is None:
        return _no_node_san(claim)
    if facts is None:
        return facts_unknown()
    if isinstance(facts.token, TokenProblem):
        return token_refused(facts.token.reason)
    record = facts.record
    if record is None:
        return Refusal(
            4,
            "unauthenticated",
            f"no record of node {claim.claimed_id}",
            "start that Server once against the same database, or check node.id in its YAML",
        )
    return (
        _identity_or_scope(claim, san, facts.token)
        or _lifecycle(claim, record)
        or _freshness(claim, record, facts.token, now, has_capacity)
    )


def token_refused(reason: str) -> Refusal:
    """Row 3, for every door."""
    return Refusal(3, "unauthenticated", reason, "issue a token: tunnelmesh issue_token --help")


def other_agent(agent_id: str, token_id: str) -> Refusal:
    """Row 6 at the agents' door."""
    return Refusal(
        6,
        "forbidden",
        f"token {token_id} is not for agent {agent_id}",
        f"issue one: tunnelmesh issue_token --type agent --agent {agent_id}",
    )


def facts_unknown() -> Refusal:
    """Nobody is admitted on unknown facts, and nobody is told that they are refused for good (design.md section 3)."""
    return Refusal(0, "unavailable", "the database could not be read", "tunnelmesh check_config; then see the database")


def no_capacity() -> Refusal:
    """Row 9, for every door."""
    return Refusal(9, "busy", "the session limit is reached", "raise server.limits, or add a node")


def _no_node_san(claim: NodeClaim) -> Refusal:
    found = ", ".join(repr(name) for name in claim.san_ids[:8]) or "none"
    return Refusal(
        2,
        "unauthenticated",
        f"the certificate must carry exactly one DNS SAN without a dot, the node id; found: {found}",
        f"reissue the relay certificate of {claim.claimed_id} with that one SAN",
    )


def _identity_or_scope(claim: NodeClaim, san: str, token: TokenFacts) -> Refusal | None:
    if san != claim.claimed_id:
        return Refusal(
            5,
            "forbidden",
            f"the certificate is for {san!r}, the caller claims {claim.claimed_id!r}",
            "give that Server the certificate of its own node id",
        )
    if not token.scope.admits(claim.claimed_id):
        return Refusal(
            6,
            "forbidden",
            f"token {token.token_id} is limited to other nodes than {claim.claimed_id}",
            "add the node to the token's scope, or configure a token that serves it",
        )
    return None


def _lifecycle(claim: NodeClaim, record: RecordFacts) -> Refusal | None:
    if record.deleted:
        return Refusal(7, "forbidden", f"node {claim.claimed_id} is deleted", "an administrator may restore it")
    if not record.enabled:
        return Refusal(7, "forbidden", f"node {claim.claimed_id} is disabled", "an administrator may enable it")
    return None


def _freshness(
    claim: NodeClaim, record: RecordFacts, token: TokenFacts, now: datetime, has_capacity: bool
) -> Admitted | Refusal:
    if claim.epoch != record.epoch:
        return Refusal(
            8,
            "stale",
            f"node {claim.claimed_id} calls with epoch {claim.epoch}, its record has {record.epoch}",
            "a newer process with this id has started; stop the other one",
        )
    if record.expires_at is None or record.heartbeat_epoch != record.epoch or record.expires_at <= now:
        return Refusal(
            8,
            "stale",
            f"node {claim.claimed_id} has no unexpired heartbeat at epoch {record.epoch}",
            "see that Server's log for its heartbeat, and its connection to the database",
        )
    if not has_capacity:
        return no_capacity()
    return Admitted(claim.claimed_id, claim.epoch, token.token_id, token.expires_at, record.expires_at)
