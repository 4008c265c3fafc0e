"""`tunnelmesh.cli`: hyphens, `--config` before settings, production by default; each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunnelmesh import cli

ROOT = Path(__file__).resolve().parents[3]


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], None),
        (["run", "--config"], None),
        (["run", "--config", "/a"], "/a"),
        (["run", "--config=/a", "--config", "/b"], "/b"),
        (["run", "--", "--config", "/a"], None),
    ],
)
def test_config_option(arguments: list[str], expected: str | None) -> None:
    assert cli.config_option(arguments) == expected


def test_hyphens_name_the_same_command() -> None:
    assert manage("show-migrations").stderr.startswith("Unknown command: 'show_migrations'")


def test_an_option_is_not_taken_for_a_command() -> None:
    assert manage("--version").stdout.startswith("5.2")


def test_production_is_the_default() -> None:
    shown = manage("diffsettings")
    assert "DEBUG = True" not in shown.stdout
    assert "ROOT_URLCONF = 'tunnelmesh.urls'" in shown.stdout


def test_environment_names_the_file_that_names_the_database(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(f"database: {{url: 'sqlite:///{tmp_path}/fleet.sqlite3'}}\n")
    config = str(tmp_path / "server.yaml")
    assert manage("migrate", "--verbosity=0", TUNNELMESH_CONFIG=config).returncode == 0
    assert (tmp_path / "fleet.sqlite3").stat().st_size > 0


def test_a_bad_file_is_named_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text("database:\n  uri: sqlite:////x\n")
    refused = manage("migrate", TUNNELMESH_CONFIG=str(tmp_path / "server.yaml"))
    assert refused.returncode == 1
    assert "server.yaml:2: database.uri: unknown key; did you mean database.url?" in refused.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "server.yaml"]
