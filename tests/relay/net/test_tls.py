"""TLS contexts: 1.3 only, mutual where it must be, clear about files that cannot be used."""

import re
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from relay.demo.pki import Authority
from relay.net import tls
from relay.net.tls import TlsFileError
from tests.support.loopback import Contexts
from tests.support.tls import exchange


def der(contexts: Contexts) -> bytes:
    return contexts.pair.certificate.public_bytes(Encoding.DER)


def test_nothing_below_tls_1_3(contexts: Contexts) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match=r"unsupported protocol|version"):
        exchange(old, contexts.server)


def test_the_agents_door_asks_for_no_certificate(contexts: Contexts) -> None:
    door = tls.agents_server_context(cert=contexts.cert, key=contexts.key)
    client, server = exchange(tls.agent_client_context(ca=None), door)
    assert server.getpeercert(binary_form=True) is None
    assert tls.public_key_pin(client.getpeercert(binary_form=True) or b"") == contexts.pair.pin


def test_with_a_ca_the_agent_verifies_chain_and_name(contexts: Contexts, tmp_path: Path) -> None:
    door = tls.agents_server_context(cert=contexts.cert, key=contexts.key)
    assert tls.agent_client_context(ca=contexts.ca).check_hostname
    other, _ = Authority.new("another CA").pair.write(tmp_path, "other")
    context = tls.agent_client_context(ca=other)
    context.check_hostname = False  # `exchange` names no host
    with pytest.raises(ssl.SSLCertVerificationError):
        exchange(context, door)


def test_a_file_that_is_not_there_is_named(contexts: Contexts, tmp_path: Path) -> None:
    absent = tmp_path / "absent.pem"
    for make in (
        lambda: tls.relay_server_context(ca=absent, cert=contexts.cert, key=contexts.key),
        lambda: tls.relay_client_context(ca=contexts.ca, cert=absent, key=contexts.key),
        lambda: tls.agents_server_context(cert=contexts.cert, key=absent),
        lambda: tls.agent_client_context(ca=absent),
        lambda: tls.certificate_of(absent),
    ):
        with pytest.raises(TlsFileError, match=re.escape(str(absent))):
            make()


def test_a_key_of_another_certificate(contexts: Contexts, tmp_path: Path) -> None:
    _, key = contexts.authority.issue("other").write(tmp_path, "other")
    with pytest.raises(TlsFileError, match="key values mismatch"):
        tls.agents_server_context(cert=contexts.cert, key=key)


def test_an_encrypted_key_asks_nobody(contexts: Contexts, tmp_path: Path) -> None:
    key = tmp_path / "encrypted.key"
    encryption = BestAvailableEncryption(b"secret")
    key.write_bytes(contexts.pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    with pytest.raises(TlsFileError, match="the key is encrypted"):
        tls.agents_server_context(cert=contexts.cert, key=key)


def test_a_bundle_without_a_certificate(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(TlsFileError, match="no certificate or crl found"):
        tls.agent_client_context(ca=empty)
    with pytest.raises(TlsFileError, match=re.escape(str(empty))):
        tls.certificate_of(empty)


def test_what_is_read_from_a_certificate(contexts: Contexts) -> None:
    certificate = tls.certificate_of(contexts.cert)
    assert certificate == der(contexts)
    assert tls.dns_names(certificate) == ("server", "localhost")
    assert tls.not_after(certificate) == contexts.pair.certificate.not_valid_after_utc
    assert re.fullmatch("[0-9a-f]{64}", tls.fingerprint(certificate))


def test_names_of_what_is_no_certificate() -> None:
    assert tls.dns_names(b"no certificate") == ()
    assert tls.node_id_of(b"no certificate") is None
