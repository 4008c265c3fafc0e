"""`tunnelmesh.cli`: hyphens, `--config` before settings, production by default; each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunnelmesh import __version__, cli

ROOT = Path(__file__).resolve().parents[3]


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "rest", "expected"),
    [
        ([], [], None),
        (["run", "--config", "/a", "-v0"], ["run", "-v0"], "/a"),
        (["run", "--config=/a", "--config", "/b"], ["run"], "/b"),
        (["run", "--", "--config", "/a"], ["run", "--", "--config", "/a"], None),
        (["run", "--conf", "/a"], ["run", "--conf", "/a"], None),
    ],
)
def test_config_is_taken_from_the_arguments(arguments: list[str], rest: list[str], expected: str | None) -> None:
    assert cli.take_config(arguments) == (rest, expected)


def test_config_without_its_path_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.take_config(["run", "--config"])
    assert ended.value.code == 2
    assert "--config: expected one argument" in capsys.readouterr().err


def test_hyphens_name_the_same_command() -> None:
    assert manage("show-migrations").stderr.startswith("Unknown command: 'show_migrations'")


def test_an_option_is_not_taken_for_a_command() -> None:
    assert "Type 'manage.py help <subcommand>'" in manage("--help").stdout


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version_is_our_own(word: str) -> None:
    assert manage(word).stdout.startswith(f"TunnelMesh {__version__} (Django 5.2.")


def test_production_is_the_default() -> None:
    shown = manage("diffsettings")
    assert "DEBUG = True" not in shown.stdout
    assert "ROOT_URLCONF = 'tunnelmesh.urls'" in shown.stdout


def test_environment_names_the_file_that_names_the_database(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(f"database: {{url: 'sqlite:///{tmp_path}/fleet.sqlite3'}}\n")
    config = str(tmp_path / "server.yaml")
    assert manage("migrate", "--verbosity=0", TUNNELMESH_CONFIG=config).returncode == 0
    assert (tmp_path / "fleet.sqlite3").stat().st_size > 0


def test_djangos_own_commands_take_config_too(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(f"database: {{url: 'sqlite:///{tmp_path}/fleet.sqlite3'}}\n")
    done = manage("migrate", "--verbosity=0", "--config", str(tmp_path / "server.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "fleet.sqlite3").stat().st_size > 0


def test_a_bad_file_is_named_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text("database:\n  uri: sqlite:////x\n")
    refused = manage("migrate", TUNNELMESH_CONFIG=str(tmp_path / "server.yaml"))
    assert refused.returncode == 1
    assert "server.yaml:2: database.uri: unknown key; did you mean database.url?" in refused.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "server.yaml"]


def test_a_reader_that_leaves_gets_no_traceback() -> None:
    """`tunnelmesh diffsettings | head -1`"""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "diffsettings"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, "")


def test_a_database_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(f"database: {{url: 'sqlite:///{tmp_path}/none/fleet.sqlite3'}}\n")
    refused = manage("migrate", "--config", str(tmp_path / "server.yaml"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("The database cannot be used: unable to open database file.\nSee database.url")
    assert "Traceback" not in refused.stderr
