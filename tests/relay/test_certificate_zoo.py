"""R9: of all the certificates that a caller may present, those with exactly the claimed id pass; both directions.

The same zoo is led to a real node's door in tests/e2e/test_admission.py.
"""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from relay import gate
from relay.demo.pki import Authority, Pair
from relay.net import tls
from tests.support.certs import ADMITTED, CLAIMED, TLS_ENDS, ZOO, Animal
from tests.support.tls import exchange
from tokens.scope import Fleet
from tunnelmesh.common.secrets import Secret

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECORD = gate.RecordFacts(
    enabled=True, deleted=False, epoch=7, heartbeat_epoch=7, expires_at=NOW + timedelta(minutes=1)
)
FACTS = gate.NodeFacts(gate.TokenFacts("1", Fleet(), None), RECORD)
CLAIM = gate.NodeClaim(CLAIMED, 7, Secret("t"), (), "", "192.0.2.1")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new("fleet")


@pytest.fixture(scope="module")
def folder(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CA and an honest node's pair as files."""
    made = tmp_path_factory.mktemp("zoo")
    authority.pair.write(made, "ca")
    authority.issue("server-z", dns=("server-z",)).write(made, "honest")
    return made


def presented(folder: Path, zoo: Pair, *, dials: bool) -> bytes:
    """The certificate that the honest side has verified, as DER; raises ssl.SSLError when it refuses."""
    zoo.write(folder, "zoo")
    files = {"ca": folder / "ca.pem", "cert": folder / "honest.pem", "key": folder / "honest.key"}
    theirs = files | {"cert": folder / "zoo.pem", "key": folder / "zoo.key"}
    caller = tls.relay_client_context(**theirs if dials else files)
    acceptor = tls.relay_server_context(**files if dials else theirs)
    client, server = exchange(caller, acceptor)
    der = (server if dials else client).getpeercert(binary_form=True)
    assert der == zoo.certificate.public_bytes(Encoding.DER)
    return der


@pytest.mark.parametrize("animal", ZOO, ids=lambda animal: animal.name)
def test_caller(animal: Animal, authority: Authority, folder: Path) -> None:
    zoo = animal.make(authority)
    if animal.outcome == TLS_ENDS:
        with pytest.raises(ssl.SSLCertVerificationError):
            presented(folder, zoo, dials=True)
        return
    claim = replace(CLAIM, san_ids=tls.dns_names(presented(folder, zoo, dials=True)))
    verdict = gate.admit(claim, FACTS, NOW, has_capacity=True)
    if isinstance(verdict, gate.Refusal):
        assert verdict.code == animal.outcome
        assert animal.reason in verdict.reason
    else:
        assert animal.outcome == ADMITTED


@pytest.mark.parametrize("animal", ZOO, ids=lambda animal: animal.name)
def test_acceptor(animal: Animal, authority: Authority, folder: Path) -> None:
    zoo = animal.make(authority)
    try:
        accepted = tls.node_id_of(presented(folder, zoo, dials=False)) == CLAIMED
    except ssl.SSLCertVerificationError:
        accepted = False
    assert accepted is animal.as_acceptor


def test_no_certificate_at_all(folder: Path) -> None:
    files = {"ca": folder / "ca.pem", "cert": folder / "honest.pem", "key": folder / "honest.key"}
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.verify_mode = ssl.CERT_NONE
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        exchange(bare, tls.relay_server_context(**files))
