"""The certificates that a demo's processes need, kept in its folder from one run to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from cryptography.exceptions import InvalidSignature

from relay.demo.pki import SERVER, Authority, Pair
from relay.demo.ports import LOOPBACK
from tunnelmesh.common.clock import SystemClock

RENEW_BEFORE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The fleet's authority, and for each node the pin of its agents' listener."""

    authority: Authority
    pins: dict[str, str]


def ensure_certificates(folder: Path, nodes: Iterable[str]) -> Certificates:
    """Read what is in ``folder``, and make what is missing, unreadable or about to expire."""
    authority = Authority(_ensure(folder, "ca", lambda: Authority.new("TunnelMesh demo CA").pair, signer=None))
    pins = {}
    for node in nodes:
        make = partial(authority.issue, node, dns=(node,), ips=(LOOPBACK,))
        _ensure(folder, node, make, signer=authority)
        # No clientAuth and no DNS name: it can never pass for a node at another node's relay listener.
        make = partial(authority.issue, f"{node} agents", ips=(LOOPBACK,), usages=(SERVER,))
        pins[node] = _ensure(folder, f"{node}-agents", make, signer=authority).pin
    return Certificates(authority, pins)


def _ensure(folder: Path, name: str, make: Callable[[], Pair], *, signer: Authority | None) -> Pair:
    try:
        pair = Pair.read(folder, name)
        if signer:
            pair.certificate.verify_directly_issued_by(signer.pair.certificate)
        if pair.certificate.not_valid_after_utc - SystemClock().now() > RENEW_BEFORE:
            return pair
    except (OSError, ValueError, TypeError, InvalidSignature):
        pass  # missing, half-written, or of an authority that was replaced
    pair = make()
    pair.write(folder, name)
    return pair
