"""Addresses to listen on: who reaches them (D19), and whether two of them are one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from django.utils.translation import gettext as _

from relay.checkup.finding import Finding, failed, passed, warned
from tunnelmesh.conf.schema import Address, ServerConfig


def listeners(config: ServerConfig) -> Iterator[Finding]:
    """Plain HTTP belongs on loopback; TLS listeners there are of no use to other hosts."""
    server = config.server
    plain = {"server.web.listen": server.web.listen, "server.admin.listen": server.admin.listen}
    secured = {"server.agents.listen": server.agents.listen} if server.agents.cert else {}
    if config.mode == "cluster":
        secured["server.relay.listen"] = server.relay.listen
        yield _endpoint(server.relay.advertised)
    for check, address in plain.items():
        yield _plain(check, address)
    for check, address in secured.items():
        yield _secured(check, address)
    for (check, address), (other, taken) in combinations((plain | secured).items(), 2):
        if _same(address, taken):
            text = _("%(address)s is also %(other)s") % {"address": address, "other": other}
            yield failed(check, text, _("Give each its own port."))


def _plain(check: str, address: Address) -> Finding:
    if address.is_loopback:
        return passed(check, _("%(address)s, this host only") % {"address": address})
    text = _("%(address)s: plain HTTP that other hosts can reach") % {"address": address}
    return warned(check, text, _("Listen on 127.0.0.1 and put a TLS proxy before it."))


def _secured(check: str, address: Address) -> Finding:
    if not address.is_loopback:
        return passed(check, str(address))
    text = _("%(address)s: no other host can reach it") % {"address": address}
    return warned(check, text, _("Listen on the address that they dial, or on 0.0.0.0."))


def _endpoint(advertised: Address | None) -> Finding:
    check = "server.relay.endpoint"
    if advertised:
        return passed(check, _("other nodes dial %(address)s") % {"address": advertised})
    text = _("not given, and server.relay.listen names no single address that other nodes could dial")
    return failed(check, text, _("Set server.relay.endpoint to host:port as other nodes reach this one."))


def _same(one: Address, other: Address) -> bool:
    return one.port == other.port != 0 and (one.host == other.host or one.is_wildcard or other.is_wildcard)
