"""A certificate authority of its own: P-256 pairs for the demo, the tests and the benchmarks, never for production."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tunnelmesh.common.clock import SystemClock

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
LIFETIME = timedelta(days=90)
BACKDATED = timedelta(hours=1)  # a peer's clock may be a little behind


@dataclass(frozen=True, slots=True)
class Validity:
    """The time in which a certificate holds."""

    not_before: datetime
    not_after: datetime

    @classmethod
    def from_now(cls, lifetime: timedelta = LIFETIME) -> Validity:
        """From an hour ago until ``lifetime`` from now."""
        now = SystemClock().now()
        return cls(now - BACKDATED, now + lifetime)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def cert_pem(self) -> bytes:
        """The certificate as PEM text."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The private key as unencrypted PKCS #8 PEM text."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def pin(self) -> str:
        """What an agent's ``pins`` list holds: the SHA-256 of the public key (SubjectPublicKeyInfo)."""
        spki = self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return "sha256:" + hashlib.sha256(spki).hexdigest()

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write ``name.pem`` and ``name.key`` (0600) into ``folder`` and return both paths."""
        cert, key = folder / f"{name}.pem", folder / f"{name}.key"
        key.unlink(missing_ok=True)
        key.touch(mode=0o600, exist_ok=False)
        key.write_bytes(self.key_pem)
        cert.write_bytes(self.cert_pem)
        return cert, key

    @classmethod
    def read(cls, folder: Path, name: str) -> Pair:
        """Read what `write` wrote; raises OSError or ValueError when it is not there or not whole."""
        key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{folder / name}.key is not an elliptic-curve key")
        return cls(x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes()), key)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that signs leaves directly."""

    pair: Pair

    @classmethod
    def new(cls, name: str) -> Authority:
        """Make a new self-signed authority called ``name``."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, key, Validity.from_now()).issuer_name(_named(name))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        return cls(Pair(builder.sign(key, hashes.SHA256()), key))

    def issue(
        self,
        name: str,
        *,
        dns: Iterable[str] = (),
        ips: Iterable[str] = (),
        uris: Iterable[str] = (),
        usages: Iterable[x509.ObjectIdentifier] = (CLIENT, SERVER),
        valid: Validity | None = None,
    ) -> Pair:
        """Sign a new leaf with common name ``name``; a list that is empty leaves its part of the certificate out."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(name, key, valid or Validity.from_now()).issuer_name(self.pair.certificate.subject)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.pair.key.public_key()), critical=False
        )
        names: list[x509.GeneralName] = [*map(x509.DNSName, dns)]
        names += [x509.IPAddress(ip_address(ip)) for ip in ips]
        names += map(x509.UniformResourceIdentifier, uris)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if purposes := list(usages):
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        return Pair(builder.sign(self.pair.key, hashes.SHA256()), key)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(name: str, key: ec.EllipticCurvePrivateKey, valid: Validity) -> x509.CertificateBuilder:
    """Return what every certificate has, short of its issuer."""
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid.not_before)
        .not_valid_after(valid.not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
