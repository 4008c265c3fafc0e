"""Where does a stream for an agent go? Local sessions and live leases -> local, peer or none; pure.

Local first, then the node whose lease carries least (design.md section 3, "Routing a stream").
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalSession:
    """An agent session that this node holds; `key` is whatever the caller finds it by again."""

    key: str
    generation: int
    active_streams: int


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """A live lease: its row is open and its node's record stands at the same epoch."""

    agent_id: str
    connection_id: str
    node_id: str
    node_epoch: int
    generation: int
    address: str
    active_streams: int


@dataclass(frozen=True, slots=True)
class Local:
    key: str


@dataclass(frozen=True, slots=True)
class Peer:
    node_id: str
    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class NoAgent:
    reason: str


def route(
    agent_id: str,
    *,
    local: Sequence[LocalSession],
    leases: Sequence[LeaseInfo],
    me: str,
    tried: Collection[Local | Peer] = (),
) -> Local | Peer | NoAgent:
    """Choose the next hop for one stream to `agent_id`, given that agent's sessions here and its leases anywhere.

    Fewest active streams wins, then the newest generation. `tried` holds the answers that failed already. A lease of
    this node (`me`) is never followed: what is held here shows in `local`, and anything else would loop.
    """
    for session in sorted(local, key=lambda session: (session.active_streams, -session.generation)):
        if (here := Local(session.key)) not in tried:
            return here
    for lease in sorted(leases, key=lambda lease: (lease.active_streams, -lease.generation)):
        peer = Peer(lease.node_id, lease.address, lease.node_epoch)
        if lease.node_id != me and peer not in tried:
            return peer
    if tried:
        return NoAgent(f"agent {agent_id} could not be reached in any of {len(tried)} ways")
    return NoAgent(f"agent {agent_id} holds no live connection to any node")
