"""TLS contexts and what is read from a peer's certificate. TLS 1.3 only; there is no plaintext relay.

A node id is the one dot-less DNS name among the certificate's subject alternative names, compared byte for byte by the
caller; every other name is ignored (design.md, section 3).
"""

from __future__ import annotations

import hashlib
import ssl
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


class TlsFileError(Exception):
    """A certificate, key or CA file that cannot be used; the text names it and the cause."""


def relay_server_context(*, ca: Path, cert: Path, key: Path) -> ssl.SSLContext:
    """For the relay listener: the client's certificate is required and verified against the relay CA bundle."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, cert=cert, key=key)
    _trust(context, ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def relay_client_context(*, ca: Path, cert: Path, key: Path) -> ssl.SSLContext:
    """For dialling another node. The node id is compared by the caller: node ids are not host names."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, cert=cert, key=key)
    context.check_hostname = False
    _trust(context, ca)
    return context


def agents_server_context(*, cert: Path, key: Path) -> ssl.SSLContext:
    """For the listener of agents and clients: no client certificate."""
    return _context(ssl.PROTOCOL_TLS_SERVER, cert=cert, key=key)


def agent_client_context(*, ca: Path | None) -> ssl.SSLContext:
    """For an agent. With a CA file the chain and the host name are verified; without one nothing is, and the caller
    must compare the pin of the public key (D16)."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    if ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, ca)
    return context


def dns_names(der: bytes) -> tuple[str, ...]:
    """Every DNS name of the certificate, verbatim; none when the extension is missing or cannot be read."""
    try:
        names = x509.load_der_x509_certificate(der).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return tuple(names.value.get_values_for_type(x509.DNSName))
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return ()


def node_id_of(der: bytes) -> str | None:
    """The certificate's one dot-less DNS name; None when there is none, or more than one."""
    names = [name for name in dns_names(der) if "." not in name]
    return names[0] if len(names) == 1 else None


def public_key_pin(der: bytes) -> str:
    """`sha256:` and the hex SHA-256 of the public key (SubjectPublicKeyInfo, as in RFC 7469, section 2.4)."""
    key = x509.load_der_x509_certificate(der).public_key()
    return "sha256:" + hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def fingerprint(der: bytes) -> str:
    """Hex SHA-256 of the whole certificate."""
    return hashlib.sha256(der).hexdigest()


def not_after(der: bytes) -> datetime:
    """When the certificate ends, UTC."""
    return x509.load_der_x509_certificate(der).not_valid_after_utc


def certificate_of(path: Path) -> bytes:
    """The first certificate of a PEM file, as DER. Raises TlsFileError."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).public_bytes(Encoding.DER)
    except (OSError, ValueError) as error:
        raise TlsFileError(f"certificate {path}: {error}") from error


def _context(protocol: int, *, cert: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Tickets would be unread bytes in a client that only writes: closing such a socket resets it (performance.md, 6).
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    if cert is not None and key is not None:
        try:
            context.load_cert_chain(cert, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise TlsFileError(f"certificate {cert} with key {key}: {_cause(error)}") from error
    return context


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except OSError as error:
        raise TlsFileError(f"CA bundle {ca}: {_cause(error)}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted; a Server must be able to start without a person")


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
