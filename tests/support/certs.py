"""The certificate zoo (faults.md, row R9): what a caller may present at `/relay` when it claims to be `server-a`.

Made anew for every run. TLS_ENDS: OpenSSL refuses it. Otherwise the code of the admission checks (design section 3),
or ADMITTED. `as_acceptor`: whether a dialling node that means `server-a` may accept it from the other side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

from relay.demo.pki import CLIENT, SERVER, Authority, Pair, Validity
from tunnelmesh.common.clock import SystemClock

CLAIMED: Final = "server-a"
ADMITTED, TLS_ENDS, UNAUTHENTICATED, FORBIDDEN = "admitted", "tls ends", "unauthenticated", "forbidden"
DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Animal:
    """One certificate: how it is made, what becomes of it, and a part of the reason that the log must give."""

    name: str
    make: Callable[[Authority], Pair]
    outcome: str
    reason: str = ""
    as_acceptor: bool = False


def names(*dns: str, ips: tuple[str, ...] = (), uris: tuple[str, ...] = ()) -> Callable[[Authority], Pair]:
    """A certificate that is right but for its names."""
    return lambda authority: authority.issue(CLAIMED, dns=dns, ips=ips, uris=uris)


def usages(*allowed: x509.ObjectIdentifier) -> Callable[[Authority], Pair]:
    return lambda authority: authority.issue(CLAIMED, dns=(CLAIMED,), usages=allowed)


def valid(start: timedelta, end: timedelta) -> Callable[[Authority], Pair]:
    """A certificate that is right but for its time, given relative to now."""
    now = SystemClock().now()
    return lambda authority: authority.issue(CLAIMED, dns=(CLAIMED,), valid=Validity(now + start, now + end))


def other_authority(authority: Authority) -> Pair:
    """Another authority of the same name, as an attacker would call his."""
    common_name = authority.pair.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return Authority.new(str(common_name)).issue(CLAIMED, dns=(CLAIMED,))


def leaf_as_authority(authority: Authority) -> Pair:
    """Signed by a leaf of the right authority, which may sign nothing."""
    return Authority(authority.issue("server-b", dns=("server-b",))).issue(CLAIMED, dns=(CLAIMED,))


def self_signed(authority: Authority) -> Pair:
    return crafted(None, names_der(CLAIMED.encode()))


def crafted(authority: Authority | None, names_extension: bytes) -> Pair:
    """A certificate whose names are these DER bytes, valid or not; signed by itself without an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CLAIMED)])
    validity = Validity.from_now(DAY)
    builder = x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=authority.pair.certificate.subject if authority else subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=validity.not_before,
        not_valid_after=validity.not_after,
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage([CLIENT, SERVER]), critical=False)
    raw = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names_extension)
    builder = builder.add_extension(raw, critical=False)
    return Pair(builder.sign(authority.pair.key if authority else key, hashes.SHA256()), key)


def names_der(*dns: bytes) -> bytes:
    """The DER of a subjectAltName extension with these DNS names, unchecked (each shorter than 120 bytes)."""
    content = b"".join(b"\x82" + bytes([len(name)]) + name for name in dns)
    return b"\x30" + bytes([len(content)]) + content


def raw_names(*dns: bytes) -> Callable[[Authority], Pair]:
    return lambda authority: crafted(authority, names_der(*dns))


NO_ID, OTHER_ID = "exactly one DNS SAN without a dot", "the caller claims"

ZOO: Final = [
    Animal("right", names(CLAIMED), ADMITTED, as_acceptor=True),
    Animal(
        "host names, addresses and URIs beside the id",
        names(CLAIMED, "a.example.org", "*.example.org", ips=("192.0.2.1",), uris=("spiffe://fleet/server-b",)),
        ADMITTED,
        as_acceptor=True,
    ),
    Animal("no extended key usage at all", usages(), ADMITTED, as_acceptor=True),
    Animal("no serverAuth", usages(CLIENT), ADMITTED),
    Animal("no clientAuth", usages(SERVER), TLS_ENDS, as_acceptor=True),
    Animal("another id", names("server-b"), FORBIDDEN, OTHER_ID),
    Animal("upper case", names("SERVER-A"), FORBIDDEN, OTHER_ID),
    Animal("wildcard without a dot", names("*"), FORBIDDEN, OTHER_ID),
    Animal("wildcard after a prefix", names("server-*"), FORBIDDEN, OTHER_ID),
    Animal("NUL after the id", raw_names(b"server-a\x00"), FORBIDDEN, OTHER_ID),
    Animal("space after the id", names("server-a "), FORBIDDEN, OTHER_ID),
    Animal("empty name", names(""), FORBIDDEN, OTHER_ID),
    Animal("NUL and a domain after the id", raw_names(b"server-a\x00.evil"), UNAUTHENTICATED, NO_ID),
    Animal("byte outside ASCII", raw_names(b"server-\xe4"), UNAUTHENTICATED, NO_ID),
    Animal("common name only", names(), UNAUTHENTICATED, NO_ID),
    Animal("wildcard in a domain", names("*.server-a"), UNAUTHENTICATED, NO_ID),
    Animal("trailing dot", names("server-a."), UNAUTHENTICATED, NO_ID),
    Animal("two ids", names("server-a", "server-b"), UNAUTHENTICATED, NO_ID),
    Animal("the id twice", names("server-a", "server-a"), UNAUTHENTICATED, NO_ID),
    Animal("URI", names(uris=("spiffe://fleet/server-a",)), UNAUTHENTICATED, NO_ID),
    Animal("address", names(ips=("127.0.0.1",)), UNAUTHENTICATED, NO_ID),
    Animal("expired", valid(-2 * DAY, -DAY), TLS_ENDS),
    Animal("not yet valid", valid(DAY, 2 * DAY), TLS_ENDS),
    Animal("another authority", other_authority, TLS_ENDS),
    Animal("signed by a leaf", leaf_as_authority, TLS_ENDS),
    Animal("self-signed", self_signed, TLS_ENDS),
]
