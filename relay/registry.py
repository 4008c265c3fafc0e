"""The daemon's only door to the ORM: synchronous, one unit of work a call, made to run in a bounded thread pool."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError
from django.db.models import Q

from nodes import selectors
from nodes.facts import HeartbeatResult, Lease, LeaseLoad, Registration
from nodes.models import ServerNode
from nodes.services import heartbeat, leases, registration
from relay import gate
from relay.models import Route
from relay.router import LeaseInfo
from relay.services.refusals import refusal_note
from tokens.authenticate import authenticate
from tokens.principal import AgentPrincipal, Door, TokenRefusal
from tunnelmesh.common.errors import DomainError
from tunnelmesh.common.ids import is_node_id
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.address import Address
from tunnelmesh.db.clock import database_now
from tunnelmesh.db.unit import reads, writes

log = logging.getLogger(__name__)


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

    @writes
    def register_node(
        self,
        node_id: str,
        *,
        address: str,
        version: str,
        certificate_not_after: datetime | None,
        certificate_fingerprint: str,
    ) -> Registration:
        """Take a new epoch (F20)."""
        return registration.node_register(
            node_id,
            address=address,
            version=version,
            certificate_not_after=certificate_not_after,
            certificate_fingerprint=certificate_fingerprint,
        )

    @writes
    def heartbeat(
        self,
        node_id: str,
        *,
        epoch: int,
        loads: Sequence[LeaseLoad] = (),
        unreachable_peers: Sequence[str] = (),
        draining: bool = False,
    ) -> HeartbeatResult:
        """Move the expiry and write the loads that changed."""
        return heartbeat.node_heartbeat(
            node_id, epoch=epoch, loads=loads, unreachable_peers=unreachable_peers, draining=draining
        )

    @writes
    def open_lease(self, node_id: str, *, epoch: int, agent_id: str, connection_id: str) -> Lease:
        """Raises Conflict `stale_epoch` when a newer process of this node has registered, Refused `node_disabled`."""
        return leases.lease_open(node_id, epoch=epoch, agent_id=agent_id, connection_id=connection_id)

    @writes
    def close_lease(self, connection_id: str, *, generation: int, reason: str) -> bool:
        """False when that generation was closed before."""
        return leases.lease_close(connection_id, generation=generation, reason=reason)

    @writes
    def close_node_leases(self, node_id: str, *, epoch: int, reason: str) -> int:
        """Close what this process holds; gives the number."""
        return leases.node_leases_close(node_id, epoch=epoch, reason=reason)

    @reads
    def live_leases(self, agent_id: str) -> list[LeaseInfo]:
        """Where the agent can be reached now."""
        return [
            LeaseInfo(
                agent_id=row.agent_id,
                connection_id=row.connection_id,
                node_id=row.server_node_id,
                node_epoch=row.node_epoch,
                generation=row.generation,
                address=row.server_node.address,
                active_streams=row.active_streams,
            )
            for row in selectors.live_leases(agent_id, database_now())
        ]

    @reads
    def entries(self, node_id: str) -> list[Entry]:
        """The TCP entries that this node is to open, its own and those of every node."""
        routes = Route.active.select_related("service").filter(
            Q(server_node_id=node_id) | Q(server_node=None),
            kind=Route.Kind.TCP,
            enabled=True,
            service__enabled=True,
            service__deleted_at=None,
        )
        return [_entry(route) for route in routes.order_by("id")]

    @reads
    def authorisation_revision(self) -> int:
        """Moves with every change of who may do what (design.md section 3)."""
        return selectors.authorisation_revision()

    def admit_node(self, claim: gate.NodeClaim, *, has_capacity: bool = True) -> gate.Admitted | gate.Refusal:
        """Judge a caller at /relay by the facts of now, and write a refusal down."""
        verdict = _judge_node(claim, has_capacity)
        if isinstance(verdict, gate.Refusal):
            target = f"server_node:{claim.claimed_id}"
            _note(verdict, door=Door.RELAY, target=target, claimed_id=claim.claimed_id, source=claim.source)
        return verdict

    def authenticate_agent(
        self, token: Secret | None, *, agent_id: str, source: str, has_capacity: bool = True
    ) -> AgentPrincipal | gate.Refusal:
        """Judge a caller at /agent: its token must be of exactly this agent."""
        principal = _known_agent(token, agent_id)
        verdict = principal if isinstance(principal, gate.Refusal) else _judge_agent(principal, agent_id, has_capacity)
        if isinstance(verdict, gate.Refusal):
            # Whom the token names, not whom the caller names: else he fills the audit, in the names of others.
            whose = agent_id if isinstance(principal, gate.Refusal) else principal.agent_id
            _note(verdict, door=Door.AGENT, target=f"agent:{whose}", claimed_id=agent_id, source=source)
        return verdict


def _judge_node(claim: gate.NodeClaim, has_capacity: bool) -> gate.Admitted | gate.Refusal:
    try:
        now, facts = _node_facts(claim)
    except DomainError as error:
        log.warning("node %s is not judged: %s", claim.claimed_id, error.message)
        return gate.facts_unknown()
    return gate.admit(claim, facts, now, has_capacity=has_capacity)


def _known_agent(token: Secret | None, agent_id: str) -> AgentPrincipal | gate.Refusal:
    try:
        principal = _agent_principal(token)
    except DomainError as error:
        log.warning("agent %s is not judged: %s", agent_id, error.message)
        return gate.facts_unknown()
    if isinstance(principal, TokenRefusal):
        return gate.token_refused(principal.reason)
    return principal


def _judge_agent(principal: AgentPrincipal, agent_id: str, has_capacity: bool) -> AgentPrincipal | gate.Refusal:
    if principal.agent_id != agent_id:
        return gate.other_agent(agent_id, principal.token_id)
    return principal if has_capacity else gate.no_capacity()


@reads
def _agent_principal(token: Secret | None) -> AgentPrincipal | TokenRefusal:
    return authenticate(token, Door.AGENT, now=database_now())


@reads
def _node_facts(claim: gate.NodeClaim) -> tuple[datetime, gate.NodeFacts]:
    """The record is read last: of two epochs the newer counts."""
    now = database_now()
    principal = authenticate(claim.token, Door.RELAY, now=now)
    token: gate.TokenFacts | gate.TokenProblem
    if isinstance(principal, TokenRefusal):
        token = gate.TokenProblem(principal.reason)
    else:
        token = gate.TokenFacts(principal.token_id, principal.scope, principal.token_expires_at)
    return now, gate.NodeFacts(token, _record_facts(claim.claimed_id))


def _record_facts(node_id: str) -> gate.RecordFacts | None:
    node = ServerNode.objects.filter(id=node_id).select_related("heartbeat").first() if is_node_id(node_id) else None
    if node is None:
        return None
    beat = getattr(node, "heartbeat", None)
    return gate.RecordFacts(
        enabled=node.enabled,
        deleted=node.deleted_at is not None,
        epoch=node.epoch,
        heartbeat_epoch=beat.epoch if beat else None,
        expires_at=beat.expires_at if beat else None,
    )


def _entry(route: Route) -> Entry:
    service = route.service
    return Entry(
        route_id=route.id,
        name=service.name,
        listen=Address(route.host, route.port or 0),
        agent_id=service.agent_id,
        target=str(Address(service.host, service.port)),
        protocol=service.protocol,
    )


_write_note = writes(refusal_note)


def _note(refusal: gate.Refusal, *, door: Door, target: str, claimed_id: str, source: str) -> None:
    """The caller hears the refusal whether or not it could be written down."""
    try:
        _write_note(refusal, door=door, target=target, claimed_id=claimed_id, source=source)
    except (DomainError, DatabaseError) as error:
        log.warning("a refusal of %s at /%s is not recorded: %s", target, door, error)
