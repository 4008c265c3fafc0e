import ssl
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from relay.demo.certificates import ensure_certificates
from relay.demo.pki import CLIENT, SERVER, Authority, Pair, Validity
from tests.support.tls import handshake


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new("test CA")


def test_leaf_carries_what_was_asked_and_nothing_else(authority: Authority) -> None:
    leaf = authority.issue("node-a", dns=("node-a", "a.example"), ips=("::1",), usages=(SERVER,)).certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-a", "a.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["::1"]
    assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [SERVER]
    public = leaf.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert isinstance(public.curve, ec.SECP256R1)


def test_leaf_without_names_and_usages(authority: Authority) -> None:
    extensions = authority.issue("node-a", usages=()).certificate.extensions
    with pytest.raises(x509.ExtensionNotFound):
        extensions.get_extension_for_class(x509.SubjectAlternativeName)
    with pytest.raises(x509.ExtensionNotFound):
        extensions.get_extension_for_class(x509.ExtendedKeyUsage)


def test_openssl_accepts_the_pair_for_mutual_tls(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue("node-a", dns=("node-a",))
    assert handshake(server=pair, client=pair, ca=authority, folder=tmp_path) == "TLSv1.3"


def test_openssl_refuses_another_authority(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority.new("another CA").issue("node-a", dns=("node-a",))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server=stranger, client=authority.issue("node-a"), ca=authority, folder=tmp_path)


def test_written_pair_is_private_and_reads_back(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue("node-a")
    cert, key = pair.write(tmp_path, "node-a")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert (cert.read_bytes(), key.read_bytes()) == (pair.cert_pem, pair.key_pem)
    assert Pair.read(tmp_path, "node-a").pin == pair.pin
    again = authority.issue("node-a")
    again.write(tmp_path, "node-a")
    assert Pair.read(tmp_path, "node-a").pin == again.pin != pair.pin


def test_pin_is_of_the_public_key(authority: Authority) -> None:
    pin = authority.issue("node-a").pin
    assert pin.startswith("sha256:")
    assert len(bytes.fromhex(pin.removeprefix("sha256:"))) == 32


class TestEnsure:
    def test_second_run_keeps_everything(self, tmp_path: Path) -> None:
        first = ensure_certificates(tmp_path, ["node-a", "node-b"])
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert ensure_certificates(tmp_path, ["node-a", "node-b"]).pins == first.pins
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_damaged_and_expiring_ones_are_made_again(self, tmp_path: Path) -> None:
        ensure_certificates(tmp_path, ["node-a", "node-b"])
        (tmp_path / "node-a.pem").write_text("-----BEGIN")
        authority = Authority(Pair.read(tmp_path, "ca"))
        short = authority.issue("node-b", dns=("node-b",), valid=Validity.from_now(timedelta(days=1)))
        short.write(tmp_path, "node-b")
        again = ensure_certificates(tmp_path, ["node-a", "node-b"])
        assert again.authority.pair.pin == authority.pair.pin
        Pair.read(tmp_path, "node-a").certificate.verify_directly_issued_by(authority.pair.certificate)
        assert Pair.read(tmp_path, "node-b").pin != short.pin

    def test_new_authority_signs_everything_anew(self, tmp_path: Path) -> None:
        first = ensure_certificates(tmp_path, ["node-a"])
        (tmp_path / "ca.key").unlink()
        second = ensure_certificates(tmp_path, ["node-a"])
        assert second.pins["node-a"] != first.pins["node-a"]
        Pair.read(tmp_path, "node-a").certificate.verify_directly_issued_by(second.authority.pair.certificate)

    def test_agents_listener_cannot_pass_for_a_node(self, tmp_path: Path) -> None:
        ensure_certificates(tmp_path, ["node-a"])
        listener = Pair.read(tmp_path, "node-a-agents").certificate
        usages = listener.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        names = listener.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert CLIENT not in usages
        assert names.get_values_for_type(x509.DNSName) == []
