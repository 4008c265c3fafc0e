"""An agent's configuration."""

from pathlib import Path

import pytest

from relay.checkup.agent import check_agent
from relay.checkup.finding import Finding, Outcome
from relay.demo.pki import Authority
from tokens.secret import generate
from tunnelmesh.common.clock import SystemClock
from tunnelmesh.conf.load import load_agent_config

PIN = f"sha256:{'0' * 64}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(generate("tma_", lambda count: b"\x07" * count).reveal())
    return tmp_path / "agent.yaml"


def judge(path: Path, text: str) -> list[Finding]:
    path.write_text(f"name: a\nservers: ['n:7443', 'm:7443']\ntoken: 'file:{path.parent}/token'\n{text}\n")
    path.chmod(0o640)
    return list(check_agent(load_agent_config(path, environ={}), now=SystemClock().now(), environ={}))


def test_all_right(path: Path) -> None:
    (path.parent / "ca.pem").write_bytes(Authority.new("ca").pair.cert_pem)
    findings = judge(path, f"pins: ['{PIN}']\nca: {path.parent}/ca.pem\nallow: ['127.0.0.1:80', 'db:1-9']")
    assert {finding.check: finding.outcome for finding in findings} == {
        "configuration": Outcome.PASS,
        "name": Outcome.PASS,
        "servers": Outcome.PASS,
        "token": Outcome.PASS,
        "pins": Outcome.PASS,
        "ca": Outcome.PASS,
        "allow": Outcome.PASS,
        "servers.reachable": Outcome.SKIP,
    }


@pytest.mark.parametrize(
    ("allow", "outcomes"),
    [
        ("[]", [Outcome.WARN]),
        ("['*:80']", [Outcome.WARN]),
        ("['*:*', '10.0.0.0/8:443']", [Outcome.WARN, Outcome.PASS]),
        ("['a b:80', '127.0.0.1', '10.0.0.1/8:1']", [Outcome.FAIL] * 3),
        ("['a:0', 'a:1']", [Outcome.FAIL, Outcome.PASS]),
    ],
)
def test_the_allow_list(path: Path, allow: str, outcomes: list[Outcome]) -> None:
    findings = [finding for finding in judge(path, f"pins: ['{PIN}']\nallow: {allow}") if finding.check == "allow"]
    assert [finding.outcome for finding in findings] == outcomes
    assert all(finding.hint for finding in findings if finding.outcome is not Outcome.PASS)


def test_the_token_of_a_node_is_none_of_an_agent(path: Path) -> None:
    (path.parent / "token").write_text(generate("tmn_", lambda count: b"\x07" * count).reveal())
    (finding,) = [finding for finding in judge(path, f"pins: ['{PIN}']") if finding.check == "token"]
    assert finding.outcome is Outcome.FAIL
    assert "tma_ or tmd_" in finding.hint


def test_a_ca_bundle_that_is_missing(path: Path) -> None:
    (finding,) = [finding for finding in judge(path, "ca: /no/such/ca.pem") if finding.check == "ca"]
    assert finding.outcome is Outcome.FAIL


def test_without_a_file(path: Path) -> None:
    environ = {
        "TUNNELMESH_NAME": "a",
        "TUNNELMESH_SERVERS": "n:1",
        "TUNNELMESH_TOKEN": f"file:{path.parent}/token",
        "TUNNELMESH_PINS": PIN,
    }
    findings = list(check_agent(load_agent_config(None, environ=environ), now=SystemClock().now(), environ=environ))
    assert {finding.check for finding in findings} == {"name", "servers", "token", "pins", "allow", "servers.reachable"}
