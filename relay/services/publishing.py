"""What is published and where: services, and the routes that lead to them. Every change is audited and counted."""

from __future__ import annotations

from typing import TypeVar

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from nodes.models import ServerNode
from nodes.services.authorisation import authorisation_touch
from relay.models import Route, Service
from tunnelmesh.audit import services as audit
from tunnelmesh.common.errors import Conflict, Invalid
from tunnelmesh.common.ids import is_agent_id, is_node_id
from tunnelmesh.conf.address import Address
from tunnelmesh.db.clock import database_now

Row = Service | Route
AnyRow = TypeVar("AnyRow", Service, Route)
WILDCARDS = {"0.0.0.0", "::"}
_AUDITED = {
    Service: ("name", "agent_id", "protocol", "host", "port", "enabled", "deleted_at"),
    Route: ("service_id", "kind", "server_node_id", "host", "port", "enabled", "deleted_at"),
}


@transaction.atomic
def service_publish(name: str, *, agent_id: str, host: str, port: int, actor: str, enabled: bool = True) -> Service:
    """Publish the TCP target `host`:`port` behind an agent. Names are unique for ever.

    Raises Invalid (`bad_service_name`, `bad_agent_id`, `bad_target`) and Conflict (`service_exists`).
    """
    now = database_now()
    service = Service(
        name=name, agent_id=agent_id, host=host, port=port, enabled=enabled, created_at=now, updated_at=now
    )
    check(service)
    if (twin := Service.objects.filter(name=name).first()) is not None:
        text = (
            _("service %(name)s is withdrawn; restore it")
            if twin.deleted_at
            else _("service %(name)s is published already; change it")
        )
        raise Conflict("service_exists", text % {"name": name}, hint=_("or choose another name"))
    service.save(force_insert=True)
    _tell("service.published", service, {}, actor)
    return service


@transaction.atomic
def service_change(service: Service, *, actor: str, **changes: object) -> Service:
    """Set `agent_id`, `host`, `port` or `enabled`; raises Invalid as `service_publish` does."""
    return _change(service, "service.changed", changes, {"agent_id", "host", "port", "enabled"}, actor)


@transaction.atomic
def route_open(
    service: Service, *, host: str, port: int, actor: str, server_node_id: str | None = None, enabled: bool = True
) -> Route:
    """Open a TCP entry on `host`:`port` of one node, or of every node when `server_node_id` is None.

    Raises Invalid (`bad_listen`, `unknown_node`) and Conflict (`entry_taken`).
    """
    now = database_now()
    route = Route(
        service=service,
        server_node_id=server_node_id,
        host=host,
        port=port,
        enabled=enabled,
        created_at=now,
        updated_at=now,
    )
    check(route)
    route.save(force_insert=True)
    _tell("route.opened", route, {}, actor)
    return route


@transaction.atomic
def route_change(route: Route, *, actor: str, **changes: object) -> Route:
    """Set `service_id`, `server_node_id`, `host`, `port` or `enabled`; raises as `route_open` does."""
    return _change(route, "route.changed", changes, {"service_id", "server_node_id", "host", "port", "enabled"}, actor)


@transaction.atomic
def withdraw(row: Row, *, actor: str) -> None:
    """Hide a service or a route: its entries close, its name stays taken."""
    before = _state(row)
    if row.delete()[0]:
        _tell(f"{_noun(row)}.withdrawn", row, before, actor)


@transaction.atomic
def restore(row: Row, *, actor: str) -> None:
    """Bring a withdrawn service or route back, if its place is still free."""
    if row.deleted_at is not None:
        before = _state(row)
        row.deleted_at = None
        check(row)
        row.save(update_fields=["deleted_at"])
        _tell(f"{_noun(row)}.restored", row, before, actor)


def _change(row: AnyRow, action: str, changes: dict[str, object], allowed: set[str], actor: str) -> AnyRow:
    if unknown := changes.keys() - allowed:
        text = _("%(fields)s cannot be changed") % {"fields": ", ".join(sorted(unknown))}
        raise Invalid("bad_field", text, hint=_("make a new one instead"))
    before = _state(row)
    for name, value in changes.items():
        setattr(row, name, value)
    check(row)
    row.updated_at = database_now()
    row.save(update_fields=[*changes, "updated_at"])
    _tell(action, row, before, actor)
    return row


def check(row: Row) -> None:
    """Raise what publishing, changing or restoring this row would raise for its values."""
    if isinstance(row, Service):
        _check_service(row)
    else:
        _check_route(row)


def _check_service(service: Service) -> None:
    if not is_node_id(service.name):
        text = _("%(name)r is no service name") % {"name": service.name[:80]}
        raise Invalid("bad_service_name", text, hint=_("use a-z, 0-9 and '-', at most 63"))
    if not is_agent_id(service.agent_id):
        text = _("%(id)r is not an agent id") % {"id": service.agent_id[:80]}
        raise Invalid("bad_agent_id", text, hint=_("use a-z, 0-9 and '-', at most 63"))
    _check_address("bad_target", service.host, service.port)


def _check_route(route: Route) -> None:
    _check_address("bad_listen", route.host, route.port or 0)
    node_id = route.server_node_id
    if node_id is not None and not ServerNode.active.filter(id=node_id).exists():
        hint = _("start its Server once, or restore the node")
        raise Invalid("unknown_node", _("no node %(id)s") % {"id": node_id}, hint=hint)
    rivals = Route.active.filter(kind=route.kind, port=route.port).exclude(id=route.id)
    if node_id is not None:
        rivals = rivals.filter(Q(server_node_id=node_id) | Q(server_node=None))
    for rival in rivals.select_related("service"):
        if rival.host == route.host or {rival.host, route.host} & WILDCARDS:
            raise Conflict(
                "entry_taken",
                _("port %(port)d is the entry of service %(service)s (route %(route)d)")
                % {"port": route.port, "service": rival.service.name, "route": rival.id},
                hint=_("choose another port or node, or withdraw that route"),
            )


def _check_address(code: str, host: str, port: int) -> None:
    try:
        parsed = Address.parse(str(Address(host, port)))
    except ValueError:
        parsed = None
    if parsed != Address(host, port) or port == 0:
        text = _("%(host)r with port %(port)d is no address") % {"host": host[:80], "port": port}
        raise Invalid(code, text, hint=_("give a host or IP and a port, 1-65535"))


def _tell(action: str, row: Row, before: dict[str, object], actor: str) -> None:
    authorisation_touch()
    audit.record(action, actor=actor, target=f"{_noun(row)}:{row.pk}", before=before, after=_state(row))


def _state(row: Row) -> dict[str, object]:
    return {name: getattr(row, name) for name in _AUDITED[type(row)]}


def _noun(row: Row) -> str:
    return row._meta.model_name or ""
