"""A node's own certificate, wrong in every way that would keep other nodes from accepting it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from relay.checkup.certificates import agents_files, ca_bundle, relay_files
from relay.checkup.finding import Finding, Outcome
from relay.demo.pki import CLIENT, SERVER, Authority, Pair, Validity
from tests.support.certs import ADMITTED, CLAIMED, ZOO, Animal
from tunnelmesh.common.clock import SystemClock
from tunnelmesh.conf.schema import AgentsSection, RelaySection

NODE_ID = "server-a"
DAY = timedelta(days=1)
NAMES = {"ca", "cert", "key", "validity", "names", "chain", "chain.serverAuth", "chain.clientAuth"}


def now() -> datetime:
    return SystemClock().now()


class Files:
    """A CA bundle, a certificate and a key, as the configuration names them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.new("relay CA")
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.pair.cert_pem)
        self.use(self.authority.issue(NODE_ID, dns=(NODE_ID,)))

    def use(self, pair: Pair) -> None:
        self.cert, self.key = pair.write(self.folder, "node")

    def judge(self, *, node_id: str | None = NODE_ID, at: datetime | None = None) -> dict[str, Finding]:
        section = RelaySection(ca=self.ca, cert=self.cert, key=self.key)
        findings = list(relay_files(section, node_id=node_id, now=at or now()))
        return {finding.check.removeprefix("server.relay."): finding for finding in findings}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def outcomes(findings: dict[str, Finding], outcome: Outcome) -> set[str]:
    return {name for name, finding in findings.items() if finding.outcome is outcome}


def test_all_right(files: Files) -> None:
    assert outcomes(files.judge(), Outcome.PASS) == NAMES - {"chain"}


def test_nothing_given() -> None:
    findings = list(relay_files(RelaySection(), node_id=NODE_ID, now=now()))
    assert [(finding.check, finding.outcome) for finding in findings] == [
        (f"server.relay.{name}", Outcome.FAIL) for name in ("ca", "cert", "key")
    ]


@pytest.mark.parametrize("animal", ZOO, ids=lambda animal: animal.name)
def test_the_zoo_passes_exactly_what_a_node_admits(files: Files, animal: Animal) -> None:
    """Both as the one that dials and as the one that is dialled, or the certificate fails here."""
    files.use(animal.make(files.authority))
    failures = outcomes(files.judge(node_id=CLAIMED), Outcome.FAIL)
    assert (not failures) == (animal.outcome == ADMITTED and animal.as_acceptor), failures


@pytest.mark.parametrize(
    ("usages", "refused"), [((CLIENT,), {"chain.serverAuth"}), ((SERVER,), {"chain.clientAuth"}), ((), set())]
)
def test_usages(files: Files, usages: tuple[object, ...], refused: set[str]) -> None:
    files.use(files.authority.issue(NODE_ID, dns=(NODE_ID,), usages=usages))  # type: ignore[arg-type]
    findings = files.judge()
    assert outcomes(findings, Outcome.FAIL) == refused
    for name in refused:
        assert "unsuitable certificate purpose" in findings[name].text
        assert name.partition(".")[2] in findings[name].hint


@pytest.mark.parametrize(
    ("names", "node_id", "outcome", "said"),
    [
        ((), NODE_ID, Outcome.FAIL, "found 0; all DNS names: none"),
        (("a.example.org",), NODE_ID, Outcome.FAIL, "found 0; all DNS names: 'a.example.org'"),
        (("server-a", "server-b"), NODE_ID, Outcome.FAIL, "found 2; all DNS names: 'server-a', 'server-b'"),
        (("server-b",), NODE_ID, Outcome.FAIL, "the certificate is for 'server-b', and this node is server-a"),
        (("server-b",), None, Outcome.SKIP, "found 'server-b', and the node has no id yet"),
        ((), None, Outcome.FAIL, "found 0"),
        (("server-a", "x.example.org", "*.y"), NODE_ID, Outcome.PASS, "is the one DNS name without a dot"),
    ],
)
def test_names(files: Files, names: tuple[str, ...], node_id: str | None, outcome: Outcome, said: str) -> None:
    files.use(files.authority.issue(NODE_ID, dns=names))
    finding = files.judge(node_id=node_id)["names"]
    assert finding.outcome is outcome
    assert said in finding.text
    assert outcome is not Outcome.FAIL or f"subjectAltName=DNS:{node_id or '<node.id>'}" in finding.hint


@pytest.mark.parametrize(
    ("day", "outcome", "said"),
    [
        (0, Outcome.PASS, "until 2026-03-11 00:00 UTC, 10 days"),
        (4.99, Outcome.PASS, "5 days"),
        (5, Outcome.WARN, "past half of its life; it ends on 2026-03-11 00:00 UTC, in 5 days"),
        (9.9, Outcome.WARN, "in 0 days"),
        (10, Outcome.FAIL, "ended on 2026-03-11 00:00 UTC"),
        (-0.1, Outcome.FAIL, "not valid before 2026-03-01 00:00 UTC"),
    ],
)
def test_validity(files: Files, day: float, outcome: Outcome, said: str) -> None:
    start = datetime.fromisoformat("2026-03-01T00:00:00+00:00")
    files.use(files.authority.issue(NODE_ID, dns=(NODE_ID,), valid=Validity(start, start + 10 * DAY)))
    finding = files.judge(at=start + day * DAY)["validity"]
    assert finding.outcome is outcome
    assert said in finding.text
    assert finding.hint or outcome is Outcome.PASS


def test_the_chain_is_not_judged_while_the_certificate_is_out_of_its_time(files: Files) -> None:
    findings = files.judge(at=now() + 400 * DAY)
    assert outcomes(findings, Outcome.FAIL) == {"ca", "validity"}
    assert outcomes(findings, Outcome.SKIP) == {"names", "chain"}


def test_a_certificate_that_may_sign_others(files: Files) -> None:
    """With it a node could make itself a certificate of any other node (F9)."""
    leaf, signer = files.authority.issue(NODE_ID, dns=(NODE_ID,)), files.authority.pair
    builder = x509.CertificateBuilder(
        subject_name=leaf.certificate.subject,
        issuer_name=leaf.certificate.issuer,
        public_key=leaf.key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=leaf.certificate.not_valid_before_utc,
        not_valid_after=leaf.certificate.not_valid_after_utc,
    )
    for extension in leaf.certificate.extensions:
        if not isinstance(extension.value, x509.BasicConstraints):
            builder = builder.add_extension(extension.value, critical=extension.critical)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    files.use(Pair(builder.sign(signer.key, hashes.SHA256()), leaf.key))
    found = files.judge()["cert"]
    assert (found.outcome, "CA:TRUE" in found.text) == (Outcome.WARN, True)


def test_another_authority(files: Files) -> None:
    files.ca.write_bytes(Authority.new("relay CA").pair.cert_pem)
    findings = files.judge()
    assert outcomes(findings, Outcome.FAIL) == {"chain.serverAuth", "chain.clientAuth"}


def test_a_key_that_tls_does_not_take(files: Files) -> None:
    """A signature key on a curve that TLS 1.3 does not know: OpenSSL loads it, and no handshake can use it."""
    key = ec.generate_private_key(ec.SECP256K1())
    issuer, valid = files.authority.pair, Validity.from_now()
    builder = x509.CertificateBuilder(
        subject_name=issuer.certificate.subject,
        issuer_name=issuer.certificate.subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=valid.not_before,
        not_valid_after=valid.not_after,
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName(NODE_ID)]), critical=False)
    files.use(Pair(builder.sign(issuer.key, hashes.SHA256()), key))
    findings = files.judge()
    assert outcomes(findings, Outcome.FAIL) == {"chain.serverAuth", "chain.clientAuth"}


def test_a_bundle_with_a_second_authority(files: Files) -> None:
    files.ca.write_bytes(Authority.new("next").pair.cert_pem + files.authority.pair.cert_pem)
    findings = files.judge()
    assert outcomes(findings, Outcome.FAIL) == set()
    assert findings["ca"].text.endswith("certificates: 2")


@pytest.mark.parametrize("name", ["ca", "cert", "key"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"junk"),
        lambda path: path.write_bytes(path.read_bytes()[:200]),
    ],
    ids=["missing", "folder", "empty", "junk", "half"],
)
def test_unusable_files(files: Files, name: str, spoil: Callable[[Path], object]) -> None:
    path = getattr(files, name)
    spoil(path)
    findings = files.judge()
    failures = outcomes(findings, Outcome.FAIL)
    assert failures in ({"ca"}, {"cert"}, {"key"})
    assert findings["chain"].outcome is Outcome.SKIP
    (failure,) = failures
    assert str(path) in findings[failure].text
    assert findings[failure].hint


def test_a_key_of_another_certificate(files: Files) -> None:
    certificate = files.cert.read_bytes()
    files.use(files.authority.issue(NODE_ID, dns=(NODE_ID,)))
    files.cert.write_bytes(certificate)
    findings = files.judge()
    assert outcomes(findings, Outcome.FAIL) == {"cert"}
    assert "key values mismatch" in findings["cert"].text
    assert "openssl pkey -pubout" in findings["cert"].hint


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        (0o600, Outcome.PASS),
        (0o640, Outcome.PASS),
        (0o660, Outcome.WARN),
        (0o644, Outcome.FAIL),
        (0o602, Outcome.FAIL),
    ],
)
def test_permissions_of_the_key(files: Files, mode: int, outcome: Outcome) -> None:
    files.key.chmod(mode)
    finding = files.judge()["key"]
    assert finding.outcome is outcome
    assert outcome is Outcome.PASS or f"{mode:04o}" in finding.text
    assert outcome is Outcome.PASS or f"chmod {'o=' if outcome is Outcome.FAIL else 'g-w'} {files.key}" in finding.hint


def expiring(folder: Path, *, days: int) -> bytes:
    """A bundle member that ends in so many days."""
    valid = Validity(now() - 400 * DAY, now() + days * DAY)
    return Authority.new("x").issue("old CA", valid=valid).cert_pem


def test_an_ended_authority_is_named(files: Files, tmp_path: Path) -> None:
    files.ca.write_bytes(files.authority.pair.cert_pem + expiring(tmp_path, days=-1))
    warning, verdict = ca_bundle("ca", files.ca, now=now())
    assert (warning.outcome, verdict.outcome) == (Outcome.WARN, Outcome.PASS)
    assert "the authority CN=old CA ended on" in warning.text


def test_only_ended_authorities(files: Files, tmp_path: Path) -> None:
    files.ca.write_bytes(expiring(tmp_path, days=-1))
    assert [finding.outcome for finding in ca_bundle("ca", files.ca, now=now())] == [Outcome.WARN, Outcome.FAIL]


class TestAgents:
    def test_none(self) -> None:
        (finding,) = agents_files(AgentsSection(), now=now())
        assert finding.outcome is Outcome.SKIP

    def test_the_pin_is_told(self, files: Files) -> None:
        pair = files.authority.issue("agents", dns=("a.example.org",))
        files.use(pair)
        findings = list(agents_files(AgentsSection(cert=files.cert, key=files.key), now=now()))
        assert {finding.outcome for finding in findings} == {Outcome.PASS}
        assert pair.pin in findings[-1].text

    def test_a_bad_file_has_no_pin(self, files: Files) -> None:
        files.key.unlink()
        findings = list(agents_files(AgentsSection(cert=files.cert, key=files.key), now=now()))
        assert [(finding.check, finding.outcome) for finding in findings] == [("server.agents.key", Outcome.FAIL)]
