"""The command as an operator and the packaged unit run it: text, JSON, exit codes, and nothing changed."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from relay.demo.pki import Authority
from tokens.secret import generate

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"
TOKEN = generate("tmn_", os.urandom).reveal()


class Installation:
    """A node that is ready to start."""

    def __init__(self, folder: Path) -> None:
        authority = Authority.new("relay CA")
        (folder / "ca.pem").write_bytes(authority.pair.cert_pem)
        authority.issue("server-a", dns=("server-a",)).write(folder, "relay")
        authority.issue("agents", dns=("a.example.org",)).write(folder, "agents")
        for name, content in (("token", TOKEN), ("db.sqlite3", "")):
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(content)
        self.folder = folder
        self.path = folder / "server.yaml"
        self.path.touch(mode=0o640)
        self.write()

    def write(self, *, token: str = "", node_id: str = "server-a") -> None:
        self.path.write_text(
            f"node:\n  id: {node_id}\n  state_dir: {self.folder}\n"
            f"database: {{url: 'sqlite:///{self.folder}/db.sqlite3'}}\n"
            f"server:\n"
            f"  agents: {{listen: '0.0.0.0:7443', cert: {self.folder}/agents.pem, key: {self.folder}/agents.key}}\n"
            f"  relay:\n"
            f"    listen: 0.0.0.0:9443\n"
            f"    endpoint: node-a.internal:9443\n"
            f"    ca: {self.folder}/ca.pem\n"
            f"    cert: {self.folder}/relay.pem\n"
            f"    key: {self.folder}/relay.key\n"
            f"    node_token: {token or f'file:{self.folder}/token'}\n"
        )

    def snapshot(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    for name in list(os.environ):
        if name.startswith("TUNNELMESH_"):
            monkeypatch.delenv(name)
    return Installation(tmp_path)


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command("check_config", *arguments, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def as_json(*arguments: str) -> tuple[int, dict[str, Any]]:
    code, text = run(*arguments, "--json")
    return code, json.loads(text)


def test_ready_to_start(node: Installation) -> None:
    code, text = run("--config", str(node.path))
    assert (code, "WARN  " in text, "FAIL  " in text) == (0, False, False)
    assert text.splitlines()[-1] == "20 PASS, 0 WARN, 0 FAIL, 1 SKIP"


def test_json_shows_every_value_with_its_source(node: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNNELMESH_LOGGING_LEVEL", "DEBUG")
    code, report = as_json("--config", str(node.path), "--node-id", "server-a")
    assert (code, report["ok"]) == (0, True)
    values = report["values"]
    assert values["node.id"] == {"value": "server-a", "source": "command line"}
    assert values["logging.level"] == {"value": "DEBUG", "source": "environment TUNNELMESH_LOGGING_LEVEL"}
    assert values["server.relay.listen"] == {"value": "0.0.0.0:9443", "source": f"file {node.path}:8"}
    assert values["mode"] == {"value": "cluster", "source": "default"}
    assert values["server.limits.drain"] == {"value": 30.0, "source": "default"}
    assert {check["outcome"] for check in report["checks"]} == {"PASS", "SKIP"}


def test_a_literal_token_warns_and_shows_nowhere(node: Installation) -> None:
    node.write(token=TOKEN)
    for output in (run("--config", str(node.path)), run("--config", str(node.path), "--json")):
        assert output[0] == 0
        assert "WARN" in output[1]
        assert TOKEN[4:16] not in output[1]
    assert as_json("--config", str(node.path))[1]["values"]["server.relay.node_token"]["value"] == "********"


def test_a_password_of_the_database_shows_nowhere(node: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNNELMESH_DATABASE_URL", "mysql://root:canary@db/tunnelmesh")
    code, text = run("--config", str(node.path), "--json")
    assert code == 3
    assert "canary" not in text
    assert "mysql://********@db/tunnelmesh" in text


def test_an_identity_is_found_and_never_made(node: Installation) -> None:
    node.write(node_id="")
    before = node.snapshot()
    code, report = as_json("--config", str(node.path))
    assert code == 3
    assert [check["check"] for check in report["checks"] if check["outcome"] == "FAIL"] == ["node.id"]
    assert node.snapshot() == before
    (node.folder / "node-id").write_text("server-a\n")
    code, report = as_json("--config", str(node.path))
    assert code == 0
    source = f"state file {node.folder}/node-id"
    assert report["values"]["node.id"] == {"value": "server-a", "source": source}
    assert node.snapshot() == before | {"node-id": b"server-a\n"}
    (node.folder / "node-id").write_text("Not Valid")
    code, report = as_json("--config", str(node.path))
    assert (code, report["values"]["node.id"]["value"]) == (3, None)


def test_every_problem_of_a_bad_file_is_a_failure(node: Installation) -> None:
    node.path.write_text("mode: x\nnodes: {}\n")
    code, report = as_json("--config", str(node.path))
    assert (code, report["ok"], report["values"]) == (3, False, {})
    assert [check["text"].removeprefix(f"{node.path}:")[:6] for check in report["checks"]] == ["1: mod", "2: nod"]


def test_a_missing_file(node: Installation) -> None:
    code, text = run("--config", str(node.folder / "none.yaml"))
    assert code == 3
    assert f"There is no configuration file {node.folder}/none.yaml" in text


def test_an_agent(node: Installation) -> None:
    path = node.folder / "agent.yaml"
    token = generate("tma_", os.urandom).reveal()
    path.write_text(f"name: a\nservers: ['n:1']\ntoken: {token}\nca: {node.folder}/ca.pem\nallow: ['a:1']\n")
    path.chmod(0o640)
    code, report = as_json("--agent", "--config", str(path))
    assert (code, report["values"]["token"]["value"]) == (0, "********")
    assert report["values"]["servers"] == {"value": ["n:1"], "source": f"file {path}:2"}
    assert report["values"]["metadata"] == {"value": {}, "source": "default"}
    assert run("--agent", "--config", str(node.path))[0] == 3


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (None, 0, "0 FAIL"),
        ("node: [", 3, "no valid YAML"),
        ("mode: local\nfoo: 1\n", 3, "foo: unknown key"),
        ("database: {url: nonsense}\n", 3, "database.url: found a value that is not shown"),
    ],
)
@pytest.mark.parametrize("settings", ["production", "dev"])
def test_as_a_process(node: Installation, text: str | None, code: int, said: str, settings: str) -> None:
    """Whatever the file is, Django starts, the command explains, and there is no traceback."""
    if text is not None:
        node.path.write_text(text)
    end = subprocess.run(
        [sys.executable, MANAGE, "check-config", "--config", node.path],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": f"tunnelmesh.settings.{settings}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (end.returncode, end.stderr) == (code, "")
    assert said in end.stdout


@pytest.mark.e2e
def test_settings_that_do_not_exist_are_told(node: Installation) -> None:
    end = subprocess.run(
        [sys.executable, MANAGE, "check_config", "--config", node.path],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tunnelmesh.settings.absent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 3
    assert "names tunnelmesh.settings.absent, and there is no such module" in end.stderr
    assert "Traceback" not in end.stderr
