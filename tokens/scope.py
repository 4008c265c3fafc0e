"""What a token may be used for: a whole fleet, a list of nodes, or one agent; explicit shapes and their codec; pure.

Fleet and list are two shapes, never "a list that happens to be empty": an allowlist that lost its last node admits
nobody (R21). The stored text is JSON with a version, because MySQL 5.6 has no JSON type.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tunnelmesh.common.errors import Invalid
from tunnelmesh.common.ids import is_agent_id, is_node_id

VERSION = 1


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every node that passes the other checks (F2)."""

    def admits(self, node_id: str) -> bool:  # noqa: ARG002 - the other shape looks at it
        return True


@dataclass(frozen=True, slots=True)
class Allowlist:
    """These nodes only; empty means none."""

    node_ids: frozenset[str]

    def admits(self, node_id: str) -> bool:
        return node_id in self.node_ids


@dataclass(frozen=True, slots=True)
class AgentScope:
    """Exactly one agent."""

    agent_id: str


NodeScope = Fleet | Allowlist
Scope = NodeScope | AgentScope


def encode(scope: Scope) -> str:
    """The stored text of a scope; equal scopes give equal texts."""
    shape: dict[str, object]
    if isinstance(scope, Fleet):
        shape = {"fleet": True, "serverNodeIds": []}
    elif isinstance(scope, Allowlist):
        shape = {"fleet": False, "serverNodeIds": sorted(scope.node_ids)}
    else:
        shape = {"agentId": scope.agent_id}
    return json.dumps({"version": VERSION, **shape}, sort_keys=True, separators=(",", ":"))


def decode(text: str) -> Scope:
    """The scope behind a stored text. Raises `Invalid` on anything that `encode` does not write: a scope that cannot
    be read in full is never taken for a wider one."""
    try:
        stored = json.loads(text)
    except ValueError:
        raise _unreadable("it is not JSON") from None
    if not isinstance(stored, dict) or stored.pop("version", None) != VERSION:
        raise _unreadable(f"it is not of version {VERSION}")
    match stored:
        case {"agentId": str(agent_id), **rest} if not rest and is_agent_id(agent_id):
            return AgentScope(agent_id)
        case {"fleet": True, "serverNodeIds": [], **rest} if not rest:
            return Fleet()
        case {"fleet": False, "serverNodeIds": [*ids], **rest} if not rest and all(map(_is_id, ids)):
            return Allowlist(frozenset(ids))
        case _:
            raise _unreadable(f"unknown shape with the keys {sorted(stored)}")


def _is_id(value: object) -> bool:
    return isinstance(value, str) and is_node_id(value)


def _unreadable(why: str) -> Invalid:
    return Invalid("bad_scope", f"the stored scope of a token cannot be read: {why}", hint="issue a new token")
