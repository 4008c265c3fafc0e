"""A node's configuration beside its certificates: identity, addresses, token, database, file, environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay.checkup.environment import unknown_variables
from relay.checkup.finding import Finding, Outcome
from relay.checkup.node import check_node
from tokens.secret import generate
from tunnelmesh.common.clock import SystemClock
from tunnelmesh.conf.load import load_server_config

TOKEN = generate("tmn_", lambda count: b"\x07" * count).reveal()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.yaml"


def judge(path: Path, text: str, *, environ: dict[str, str] | None = None) -> list[Finding]:
    if not path.exists():
        path.touch(mode=0o640)
    path.write_text(f"{text}\ndatabase: {{url: 'sqlite:///{path.parent}/db.sqlite3'}}\n")
    loaded = load_server_config(path, environ=environ or {})
    return list(check_node(loaded, now=SystemClock().now(), environ=environ or {}))


def found(findings: list[Finding], check: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.check == check]
    return finding


class TestIdentity:
    def test_from_the_file(self, path: Path) -> None:
        finding = found(judge(path, "node: {id: a}"), "node.id")
        assert (finding.outcome, finding.text) == (Outcome.PASS, f"a, from the file {path}:1")

    def test_none_yet(self, path: Path) -> None:
        text = f"node: {{state_dir: {path.parent}}}"
        finding = found(judge(path, text), "node.id")
        assert finding.outcome is Outcome.FAIL
        assert finding.hint == f"Run: tunnelmesh init_node_id --config {path}"
        assert path.read_text().startswith(f"{text}\n")

    def test_from_the_state_file(self, path: Path) -> None:
        (path.parent / "node-id").write_text("kept\n")
        finding = found(judge(path, f"node: {{state_dir: {path.parent}}}"), "node.id")
        assert (finding.outcome, finding.text) == (Outcome.PASS, f"kept, from the state file {path.parent}/node-id")

    def test_a_bad_state_file(self, path: Path) -> None:
        (path.parent / "node-id").write_text("Not Valid")
        finding = found(judge(path, f"node: {{state_dir: {path.parent}}}"), "node.id")
        assert finding.outcome is Outcome.FAIL
        assert "Not Valid" not in finding.text

    def test_local_mode_needs_neither_identity_nor_relay(self, path: Path) -> None:
        findings = judge(path, "mode: local")
        assert [finding for finding in findings if finding.outcome is Outcome.FAIL] == []
        assert found(findings, "server.relay").outcome is Outcome.SKIP
        assert found(findings, "node.id").text.startswith("local")


class TestListeners:
    def test_the_defaults(self, path: Path) -> None:
        findings = judge(path, "node: {id: a}")
        assert found(findings, "server.web.listen").outcome is Outcome.PASS
        assert found(findings, "server.admin.listen").outcome is Outcome.PASS
        assert found(findings, "server.relay.listen").outcome is Outcome.WARN
        assert "server.agents.listen" not in {finding.check for finding in findings}

    @pytest.mark.parametrize("section", ["web", "admin"])
    def test_plain_http_for_other_hosts_warns(self, path: Path, section: str) -> None:
        finding = found(judge(path, f"server: {{{section}: {{listen: '0.0.0.0:80'}}}}"), f"server.{section}.listen")
        assert finding.outcome is Outcome.WARN
        assert "TLS proxy" in finding.hint

    def test_what_other_nodes_dial(self, path: Path) -> None:
        findings = judge(path, "server: {relay: {listen: '[::]:9443'}}")
        assert found(findings, "server.relay.endpoint").outcome is Outcome.FAIL
        assert found(findings, "server.relay.listen").outcome is Outcome.PASS
        findings = judge(path, "server: {relay: {listen: '[::]:9443', endpoint: 'a:9443'}}")
        assert found(findings, "server.relay.endpoint").text == "other nodes dial a:9443"

    @pytest.mark.parametrize(
        ("one", "other", "clash"),
        [
            ("127.0.0.1:1", "127.0.0.1:1", True),
            ("0.0.0.0:1", "127.0.0.1:1", True),
            ("127.0.0.1:1", "[::]:1", True),
            ("127.0.0.1:1", "127.0.0.2:1", False),
            ("127.0.0.1:1", "127.0.0.1:2", False),
            ("127.0.0.1:0", "127.0.0.1:0", False),
        ],
    )
    def test_two_on_one_port(self, path: Path, one: str, other: str, clash: bool) -> None:
        findings = judge(path, f"mode: local\nserver: {{web: {{listen: '{one}'}}, admin: {{listen: '{other}'}}}}")
        clashes = [finding for finding in findings if finding.outcome is Outcome.FAIL]
        assert [finding.text for finding in clashes] == [f"{one} is also server.admin.listen"] * clash


class TestToken:
    def finding(self, path: Path, reference: str, **environ: str) -> list[Finding]:
        findings = judge(path, f"server: {{relay: {{node_token: '{reference}'}}}}", environ=environ)
        assert all(TOKEN[:12] not in finding.text + finding.hint for finding in findings)
        return [finding for finding in findings if finding.check == "server.relay.node_token"]

    def test_none(self, path: Path) -> None:
        finding = found(judge(path, "node: {id: a}"), "server.relay.node_token")
        assert finding.outcome is Outcome.FAIL
        assert "issue_token --type server_node" in finding.hint

    def test_a_file(self, path: Path) -> None:
        file = path.parent / "token"
        file.write_text(TOKEN + "\n")
        file.chmod(0o640)
        (finding,) = self.finding(path, f"file:{file}")
        assert (finding.outcome, finding.text) == (Outcome.PASS, f"a well-formed token (file:{file})")
        file.chmod(0o644)
        warning, finding = self.finding(path, f"file:{file}")
        assert (warning.outcome, finding.outcome) == (Outcome.WARN, Outcome.PASS)
        assert warning.hint == f"Run: chmod o= {file}"

    def test_a_literal_warns(self, path: Path) -> None:
        warning, finding = self.finding(path, TOKEN)
        assert (warning.outcome, finding.outcome) == (Outcome.WARN, Outcome.PASS)
        assert "file:/path" in warning.hint

    @pytest.mark.parametrize(
        "content", ["tmn_x", "", "two words", TOKEN[:-1], TOKEN[:-1] + "~", "tma_" + TOKEN[4:], TOKEN.swapcase()]
    )
    def test_what_is_no_node_token(self, path: Path, content: str) -> None:
        file = path.parent / "token"
        file.write_text(content)
        file.chmod(0o600)
        (finding,) = self.finding(path, f"file:{file}")
        assert finding.outcome is Outcome.FAIL
        assert finding.hint

    def test_what_is_not_there(self, path: Path) -> None:
        for reference in (
            f"file:{path.parent}/none",
            f"file:{path.parent}",
            "store:a#b",
            "env:TUNNELMESH_NO_SUCH_NAME",
        ):
            (finding,) = self.finding(path, reference)
            assert finding.outcome is Outcome.FAIL

    def test_a_folder_that_is_closed_to_this_user(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = Path.open, Path.stat

        def denied(which: int) -> Callable[..., Any]:
            def call(self: Path, *arguments: Any, **named: Any) -> Any:
                if self.name == "token":
                    raise PermissionError(13, "Permission denied")
                return real[which](self, *arguments, **named)

            return call

        monkeypatch.setattr(Path, "open", denied(0))
        monkeypatch.setattr(Path, "stat", denied(1))
        (finding,) = self.finding(path, f"file:{path.parent}/token")
        assert finding.outcome is Outcome.FAIL
        assert "Permission denied" in finding.text


class TestFile:
    def test_closed(self, path: Path) -> None:
        finding = found(judge(path, "mode: local"), "configuration")
        assert finding.outcome is Outcome.PASS

    @pytest.mark.parametrize(
        ("mode", "literal", "outcome"),
        [
            (0o644, False, Outcome.PASS),
            (0o644, True, Outcome.FAIL),
            (0o640, True, Outcome.PASS),
            (0o642, False, Outcome.FAIL),
        ],
    )
    def test_open_to_others(self, path: Path, mode: int, literal: bool, outcome: Outcome) -> None:
        path.touch()
        path.chmod(mode)
        text = f"server: {{relay: {{node_token: {TOKEN}}}}}" if literal else "mode: local"
        finding = found(judge(path, text), "configuration")
        assert finding.outcome is outcome
        assert outcome is Outcome.PASS or finding.hint.startswith("Run: chmod o")

    def test_without_one_it_is_not_judged(self, tmp_path: Path) -> None:
        environ = {"TUNNELMESH_MODE": "local"}
        findings = list(check_node(load_server_config(None, environ=environ), now=SystemClock().now(), environ=environ))
        assert "configuration" not in {finding.check for finding in findings}


class TestDatabase:
    def test_not_there_yet(self, path: Path) -> None:
        findings = judge(path, "mode: local")
        finding = found(findings, "database.url")
        assert (finding.outcome, finding.hint) == (Outcome.WARN, "Run: tunnelmesh migrate")
        assert found(findings, "database.migrations").outcome is Outcome.SKIP
        assert not (path.parent / "db.sqlite3").exists()

    def test_there(self, path: Path) -> None:
        (path.parent / "db.sqlite3").touch()
        assert found(judge(path, "mode: local"), "database.url").outcome is Outcome.PASS

    @pytest.mark.parametrize("refused", ["folder", "file"])
    def test_not_writable(self, path: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
        database = path.parent / "db.sqlite3"
        database.touch()
        closed = path.parent if refused == "folder" else database
        monkeypatch.setattr("os.access", lambda asked, mode: asked != closed)
        assert found(judge(path, "mode: local"), "database.url").outcome is Outcome.FAIL

    def test_no_folder(self, path: Path) -> None:
        path.write_text(f"mode: local\ndatabase: {{url: 'sqlite:///{path.parent}/no/db'}}\n")
        loaded = load_server_config(path, environ={})
        findings = list(check_node(loaded, now=SystemClock().now(), environ={}))
        assert found(findings, "database.url").outcome is Outcome.FAIL

    def test_another_kind_of_database(self, path: Path) -> None:
        path.write_text("mode: local\ndatabase: {url: 'mysql://u:secret@h/d'}\n")
        loaded = load_server_config(path, environ={})
        findings = list(check_node(loaded, now=SystemClock().now(), environ={}))
        assert found(findings, "database.url").outcome is Outcome.FAIL
        assert "secret" not in str(findings)


def test_variables_that_nothing_reads() -> None:
    environ = {
        "TUNNELMESH_CONFIG": "x",
        "TUNNELMESH_NODE_ID": "x",
        "TUNNELMESH_NAME": "x",
        "TUNNELMESH_SERVER_RELAY_LISEN": "hidden",
        "TUNNELMESH_QQQQQQQQQQ": "hidden",
        "PATH": "x",
    }
    other, mistyped = unknown_variables(environ)
    assert (other.outcome, mistyped.outcome) == (Outcome.WARN, Outcome.WARN)
    assert mistyped.hint == "Did you mean TUNNELMESH_SERVER_RELAY_LISTEN?"
    assert other.text.startswith("TUNNELMESH_QQQQQQQQQQ ")
    assert "hidden" not in str((other, mistyped))
