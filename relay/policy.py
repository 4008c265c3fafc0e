"""May this principal reach this target? Allow rules, their grammar and the verdict; pure, default deny.

Judged per stream on the entry node and again on the agent (design.md section 3).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

ANY = "*"
_PORTS_RE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME_RE = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_GRAMMAR = "write host:port, where host is a name, an address, a CIDR or *, and port is a number, a range or *"

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class AllowRule:
    """One permission. `host` is `*`, a lower-case name, or a network (one address is a network of one)."""

    text: str
    host: str | _Network
    first_port: int
    last_port: int

    @classmethod
    def parse(cls, text: str) -> AllowRule:
        """Read `host:port`; raises ValueError that says what was found and what to write.

        A name allows that name only, whatever it resolves to; an address or CIDR allows literal addresses only.
        """
        host, colon, ports = text.rpartition(":")
        if not colon or not host:
            raise ValueError(f"allow rule {text!r}: no port; {_GRAMMAR}")
        first, last = _parse_ports(text, ports)
        return cls(text, _parse_host(text, host), first, last)

    def covers(self, host: str, port: int) -> bool:
        if not self.first_port <= port <= self.last_port:
            return False
        if isinstance(self.host, str):
            return self.host in (ANY, host.lower())
        address = _literal(host)
        return address is not None and address in self.host

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    reason: str


def may_reach(rules: Sequence[AllowRule], host: str, port: int) -> Verdict:
    """Judge one target against the rules: the first that covers it allows it, none denies it."""
    for rule in rules:
        if rule.covers(host, port):
            return Verdict(True, f"allowed by the rule {rule}")
    if not rules:
        return Verdict(False, f"{host}:{port} denied: the allow list is empty")
    return Verdict(False, f"{host}:{port} denied: none of {len(rules)} allow rules covers it")


def _parse_ports(text: str, ports: str) -> tuple[int, int]:
    if ports == ANY:
        return 1, 65535
    match = _PORTS_RE.fullmatch(ports)
    first = int(match[1]) if match else 0
    last = int(match[2] or match[1]) if match else 0
    if not 1 <= first <= last <= 65535:
        raise ValueError(f"allow rule {text!r}: port {ports!r} is not 1-65535 or a rising range; {_GRAMMAR}")
    return first, last


def _parse_host(text: str, host: str) -> str | _Network:
    bracketed = host.startswith("[") and host.endswith("]")
    inner = host[1:-1] if bracketed else host
    if host == ANY:
        return ANY
    try:
        network = ip_network(inner)
    except ValueError as error:
        return _parse_name(text, inner, bracketed or "/" in inner, error)
    if bracketed != isinstance(network, IPv6Network):
        raise ValueError(f"allow rule {text!r}: an IPv6 address or CIDR, and nothing else, stands in brackets")
    return network


def _parse_name(text: str, name: str, is_network: bool, error: ValueError) -> str:
    if is_network:
        raise ValueError(f"allow rule {text!r}: {error}; {_GRAMMAR}") from error
    lowered = name.lower()
    if len(lowered) > 253 or not _NAME_RE.fullmatch(lowered):
        raise ValueError(f"allow rule {text!r}: {name!r} is neither a host name nor an address; {_GRAMMAR}") from error
    return lowered


@lru_cache(maxsize=1024)
def _literal(host: str) -> _Address | None:
    """The address that a literal host stands for: IPv4 inside IPv6 counts as IPv4, a zone id makes it no literal."""
    if "%" in host:
        return None
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
