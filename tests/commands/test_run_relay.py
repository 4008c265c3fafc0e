"""The command as an operator runs it: the order of its checks, its exit codes, and that a refusal writes nothing."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relay.demo.pki import Authority
from relay.demo.ports import LOOPBACK, free_ports
from tests.support.manage import manage, running
from tunnelmesh.common.errors import ExitCode

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with the newest schema and nothing in it."""
    folder = tmp_path_factory.mktemp("database")
    config = folder / "server.yaml"
    config.write_text(f"database: {{url: 'sqlite:///{folder}/db.sqlite3'}}\n")
    assert manage("migrate", "--config", config).returncode == 0
    with closing(sqlite3.connect(folder / "db.sqlite3")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (folder / "db.sqlite3").read_bytes()


class Folder:
    """The files of one node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "server.yaml"
        self.database = path / "db.sqlite3"
        self.relay, self.agents, self.admin = free_ports(3)
        Authority.new("fleet").issue("node-a", dns=("node-a",)).write(path, "node-a")
        Authority.new("fleet").pair.write(path, "ca")
        token = path / "token"
        token.touch(mode=0o600)
        token.write_text("tmn_" + "x" * 49)

    def write(self, *, node_id: str = "node-a", relay: bool = True) -> None:
        lines = [
            f"node: {{id: {node_id}, state_dir: {self.path}}}" if node_id else f"node: {{state_dir: {self.path}}}",
            f"database: {{url: 'sqlite:///{self.database}'}}",
            "server:",
            f"  admin: {{listen: '{LOOPBACK}:{self.admin}'}}",
        ]
        if relay:
            lines += [
                "  relay:",
                f"    listen: '{LOOPBACK}:{self.relay}'",
                f"    ca: {self.path}/ca.pem",
                f"    cert: {self.path}/node-a.pem",
                f"    key: {self.path}/node-a.key",
                f"    node_token: file:{self.path}/token",
            ]
        self.config.write_text("\n".join([*lines, ""]))

    def refusal(self) -> str:
        """What the command says when it does not start; with the exit code for a refused configuration."""
        ended = manage("run_relay", "--config", self.config)
        assert ended.returncode == ExitCode.REFUSED_CONFIG, ended.stderr
        assert "Traceback" not in ended.stderr
        return ended.stderr

    def epochs(self) -> list[tuple[str, int]]:
        return self.rows("SELECT id, epoch FROM server_nodes")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def folder(tmp_path: Path, migrated: bytes) -> Folder:
    made = Folder(tmp_path)
    made.database.write_bytes(migrated)
    made.write()
    return made


def test_no_database_is_named_and_not_created(folder: Folder) -> None:
    folder.database.unlink()
    text = folder.refusal()
    assert f"there is no database {folder.database}" in text
    assert "tunnelmesh migrate" in text
    assert not folder.database.exists()


def test_older_schema_is_named(folder: Folder) -> None:
    folder.database.write_bytes(b"")
    assert "lacks" in folder.refusal()
    assert folder.rows("SELECT name FROM sqlite_master") == []


def test_certificate_of_another_node(folder: Folder) -> None:
    folder.write(node_id="node-b")
    assert "must be this node's id, node-b; found the DNS names: node-a" in folder.refusal()
    assert folder.epochs() == []


def test_new_identity_is_written_before_its_certificate_is_asked_for(folder: Folder) -> None:
    """F13, F14, F18: the first start finds its name, and says what it still needs."""
    folder.write(node_id="", relay=False)
    text = folder.refusal()
    assert re.search(r"the node id server-[0-9a-f]{32} now stands in ", text)
    assert "server.relay.ca is not given" in text
    assert "id: server-" in folder.config.read_text()
    assert folder.epochs() == []


def test_unknown_option_is_a_usage_error() -> None:
    assert manage("run_relay", "--no-such-option").returncode == ExitCode.USAGE


def test_port_that_is_taken_is_no_fault_of_the_configuration(folder: Folder, tmp_path: Path) -> None:
    with running(tmp_path / "log", "run_relay", "--config", folder.config) as node:
        node.wait_for("node node-a serves")
        ended = manage("run_relay", "--config", folder.config)
        assert ended.returncode == ExitCode.FAILED
        assert f"cannot listen on {LOOPBACK}:{folder.admin}: Address already in use" in ended.stderr
        assert folder.epochs() == [("node-a", 1)]
        node.child.send_signal(signal.SIGINT)
        assert node.child.wait(30) == ExitCode.OK
    assert folder.epochs() == [("node-a", 1)]
