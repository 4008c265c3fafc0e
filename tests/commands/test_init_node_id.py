"""The command as an operator runs it: what it says, what it exits with, what the file is afterwards."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"
ID_RE = re.compile(r"server-[0-9a-f]{32}")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: owners and mounts")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TUNNELMESH_NODE_ID", raising=False)
    path = tmp_path / "server.yaml"
    path.write_text(f"node:\n  state_dir: {tmp_path}\n")
    return path


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("init_node_id", *arguments, stdout=out)
    return out.getvalue()


def process(*arguments: str, environ: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, MANAGE, *arguments],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tunnelmesh.settings.production"} | (environ or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refusal(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    assert error.value.returncode == 3
    return error.value


def test_a_new_identity(config: Path) -> None:
    node_id, origin, *steps = run("--config", str(config)).splitlines()
    assert ID_RE.fullmatch(node_id)
    assert f"written into {config}" in origin
    assert config.read_text() == f"node:\n  id: {node_id}\n  state_dir: {config.parent}\n"
    text = "\n".join(steps)
    order = ["subjectAltName=DNS:" + node_id, "node_token", "check_config --config", "run_relay --config"]
    assert [text.index(step) for step in order] == sorted(text.index(step) for step in order)


def test_again_it_says_where_the_identity_is(config: Path) -> None:
    node_id = run("--config", str(config)).splitlines()[0]
    before = config.stat()
    again, origin, *_ = run("--config", str(config)).splitlines()
    assert again == node_id
    assert origin == f"From the file {config}:2. Nothing was written."
    assert config.stat() == before


def test_steps_that_are_done_are_not_shown(config: Path) -> None:
    there = config.parent / "there"
    there.touch()
    relay = f"ca: {there}, cert: {there}, key: {there}, node_token: 'file:{there}'"
    config.write_text(f"node: {{id: a}}\nserver: {{relay: {{{relay}}}}}\n")
    text = run("--config", str(config))
    assert "openssl" not in text
    assert "issue_token" not in text
    assert "1. tunnelmesh check_config" in text


def test_files_that_are_named_and_not_there_yet_are_steps(config: Path) -> None:
    config.write_text("node: {id: a}\nserver: {relay: {ca: /a, cert: /b, key: /c, node_token: 'file:/d'}}\n")
    text = run("--config", str(config))
    assert "openssl" in text
    assert "issue_token" in text


def test_from_the_state_file(config: Path) -> None:
    (config.parent / "node-id").write_text("server-kept\n")
    node_id, origin, *_ = run("--config", str(config)).splitlines()
    assert node_id == "server-kept"
    assert origin == f"From the state file {config.parent / 'node-id'}; it was written into {config}."


def test_from_the_state_file_into_a_file_that_cannot_be_written(config: Path) -> None:
    (config.parent / "node-id").write_text("server-kept\n")
    (config.parent / "twin").hardlink_to(config)
    assert "2 names" in str(refusal("--config", str(config)))


def test_from_the_command_line(config: Path) -> None:
    before = config.read_text()
    assert run("--config", str(config), "--node-id", "mine").startswith("mine\nFrom the command line. Nothing")
    assert config.read_text() == before


def test_local_mode(config: Path) -> None:
    config.write_text("mode: local\n")
    text = run("--config", str(config))
    assert text.startswith("local\nLocal mode")
    assert "openssl" not in text
    assert config.read_text() == "mode: local\n"


def test_the_configuration_of_the_environment(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNNELMESH_CONFIG", str(config))
    assert run().splitlines()[0] in config.read_text()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mode: clster\n", ":1: mode: found 'clster'; allowed: cluster or local"),
        ("node:\n  idd: x\n", ":2: node.idd: unknown key; did you mean node.id?"),
        ("node:\n\tid:\n", ":2: found no valid YAML"),
        ("node:\n  id: Server_A\n", ":2: node.id: found 'Server_A'"),
        ("node:\n  id: 5\n", "put it in quotes"),
    ],
)
def test_a_bad_file_is_refused_and_left(config: Path, text: str, found: str) -> None:
    config.write_text(text)
    error = str(refusal("--config", str(config)))
    assert f"{config}" in error
    assert found in error
    assert config.read_text() == text


def test_a_missing_file_is_refused_and_not_made(config: Path) -> None:
    missing = config.with_name("missing.yaml")
    assert f"There is no configuration file {missing}" in str(refusal("--config", str(missing)))
    assert not missing.exists()


@pytest.mark.e2e
def test_two_processes_at_once_end_with_one_identity(config: Path) -> None:
    both = [process("init-node-id", "--config", str(config)) for _ in range(2)]
    outputs = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    ids = {output.splitlines()[0] for output in outputs}
    assert len(ids) == 1
    assert config.read_text().count("server-") == 1
    assert ids.pop() in config.read_text()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["init_node_id", "--config", "{missing}"], 3, "There is no configuration file"),
        (["init_node_id", "--config", "{broken}"], 3, "no valid YAML"),
        (["init_node_id", "--nonsense"], 2, "unrecognized arguments"),
    ],
)
def test_exit_codes_without_a_traceback(config: Path, arguments: list[str], code: int, said: str) -> None:
    broken = config.with_name("broken.yaml")
    broken.write_text("node: [")
    names = {"missing": config.with_name("missing.yaml"), "broken": broken}
    one = process(*(argument.format(**names) for argument in arguments))
    out, error = one.communicate()
    assert one.returncode == code
    assert said in error
    assert "Traceback" not in error
    assert out == ""


@pytest.mark.root
@pytest.mark.e2e
@needs_root
def test_owner_mode_attributes_and_link_stay(config: Path) -> None:
    os.chown(config, 1001, 1002)
    config.chmod(0o640)
    os.setxattr(config, "user.origin", b"ansible")
    link = config.with_name("link.yaml")
    link.symlink_to(config.name)
    one = process("init_node_id", "--config", str(link))
    node_id = one.communicate()[0].splitlines()[0]
    assert one.returncode == 0
    assert link.is_symlink()
    status = config.stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o640, 1001, 1002)
    assert os.getxattr(config, "user.origin") == b"ansible"
    assert config.read_text() == f"node:\n  id: {node_id}\n  state_dir: {config.parent}\n"


@pytest.mark.root
@pytest.mark.e2e
@needs_root
def test_a_bind_mounted_file_is_refused_with_code_3(config: Path) -> None:
    source = config.with_name("source.yaml")
    source.write_text(config.read_text())
    before = config.read_text()
    if subprocess.run(["mount", "--bind", source, config], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        one = process("init_node_id", "--config", str(config))
        error = one.communicate()[1]
    finally:
        subprocess.run(["umount", config], check=True)
    assert one.returncode == 3
    assert f"tunnelmesh init_node_id --config {config}" in error
    assert config.read_text() == source.read_text() == before
