"""The command as an operator runs it: what keeps it from starting, and that it needs nothing of a node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from relay.demo.ports import LOOPBACK, free_ports
from tests.support.manage import manage, running
from tunnelmesh.common.errors import ExitCode

PIN = "sha256:" + "0" * 64


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A right configuration; nobody answers where it dials."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("tma_" + "x" * 49 + "\n")
    path = tmp_path / "agent.yaml"
    path.write_text(
        f"name: agent-1\nservers: ['{LOOPBACK}:{free_ports(1)[0]}']\npins: ['{PIN}']\n"
        f"token: file:{token}\nallow: ['{LOOPBACK}:80']\nlogging: {{format: json}}\n"
    )
    return path


def refusal(config: Path) -> CommandError:
    with pytest.raises(CommandError) as error:
        call_command("run_agent", config=str(config))
    assert error.value.returncode == ExitCode.REFUSED_CONFIG
    return error.value


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("pins:", "pin:"), "pin: unknown key"),
        (("127.0.0.1:80", "127.0.0.1"), "no port"),
        (("/token", "/no-token"), "cannot be read"),
    ],
)
def test_refused_configuration(config: Path, change: tuple[str, str], says: str) -> None:
    config.write_text(config.read_text().replace(*change))
    assert says in str(refusal(config))


def test_no_configuration(tmp_path: Path) -> None:
    assert "agent.yaml" in str(refusal(tmp_path / "agent.yaml"))


def test_unknown_option_is_a_usage_error() -> None:
    assert manage("run_agent", "--no-such-option").returncode == ExitCode.USAGE


@pytest.mark.e2e
def test_runs_without_a_database_and_ends_with_zero(config: Path, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    with running(tmp_path / "log", "run_agent", "--config", config) as agent:
        agent.wait_for("not connected: connect:")
        files = {str(link.readlink()) for link in Path(f"/proc/{agent.child.pid}/fd").iterdir()}
        assert not [file for file in files if "sqlite" in file]
        assert agent.end() == ExitCode.OK
        lines = [json.loads(line) for line in agent.said.splitlines()]
    assert set(tmp_path.iterdir()) - before == {tmp_path / "log"}
    assert lines[0]["message"].startswith("runs on ")
    assert "xxxx" not in str(lines)
