"""The daemon's only door to the ORM: synchronous, one unit of work a call, made to run in a bounded thread pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodes.facts import HeartbeatResult, Lease, LeaseLoad, Registration
from relay import gate
from relay.router import LeaseInfo
from tokens.principal import AgentPrincipal
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.schema import Address


@dataclass(frozen=True, slots=True)
class Entry:
    """A route on this node: listen here, lead to that agent's target ("host:port")."""

    route_id: int
    name: str
    listen: Address
    agent_id: str
    target: str
    protocol: str


class Registry:
    """Every method may raise DomainError `database_unavailable`, except the two that admit: they refuse instead."""

    def register_node(
        self,
        node_id: str,
        *,
        address: str,
        version: str,
        certificate_not_after: datetime | None,
        certificate_fingerprint: str,
    ) -> Registration:
        raise NotImplementedError

    def heartbeat(
        self, node_id: str, *, epoch: int, loads: Sequence[LeaseLoad] = (), unreachable_peers: Sequence[str] = ()
    ) -> HeartbeatResult:
        raise NotImplementedError

    def open_lease(self, node_id: str, *, epoch: int, agent_id: str, connection_id: str) -> Lease:
        """Raises Conflict `stale_epoch` when a newer process of this node has registered."""
        raise NotImplementedError

    def close_lease(self, connection_id: str, *, generation: int, reason: str) -> bool:
        """False when that generation was closed before."""
        raise NotImplementedError

    def close_node_leases(self, node_id: str, *, epoch: int, reason: str) -> int:
        raise NotImplementedError

    def live_leases(self, agent_id: str) -> list[LeaseInfo]:
        raise NotImplementedError

    def admit_node(self, claim: gate.NodeClaim, *, has_capacity: bool = True) -> gate.Admitted | gate.Refusal:
        raise NotImplementedError

    def authenticate_agent(
        self, token: Secret | None, *, agent_id: str, source: str, has_capacity: bool = True
    ) -> AgentPrincipal | gate.Refusal:
        raise NotImplementedError

    def entries(self, node_id: str) -> list[Entry]:
        raise NotImplementedError

    def authorisation_revision(self) -> int:
        raise NotImplementedError
