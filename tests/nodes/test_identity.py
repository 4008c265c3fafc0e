"""F12-F16, T6, T10: where an id comes from, who may create one, and which file has it afterwards."""

import itertools
import os
from pathlib import Path

import pytest

from nodes.identity import LOCAL_NODE_ID, Identity, Origin, decide, ensure_identity, find_identity
from tunnelmesh.common.errors import DomainError, Invalid, Refused
from tunnelmesh.common.ids import check_node_id, is_node_id
from tunnelmesh.conf.load import Loaded, load_server_config
from tunnelmesh.conf.schema import ServerConfig

KEPT = "server-kept"
GENERATED = "server-" + "ab" * 16


def random_bytes(count: int) -> bytes:
    return b"\xab" * count


class Host:
    """A configuration file and a state folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "server.yaml"
        self.state_file = folder / "state" / "node-id"
        self.state_file.parent.mkdir()
        self.configure("mode: cluster\n")

    def configure(self, text: str) -> None:
        self.text = f"{text}node:\n  state_dir: {self.state_file.parent}\n"
        self.path.write_text(self.text)

    def load(self, *, cli: dict[str, str] | None = None, environ: dict[str, str] | None = None) -> Loaded[ServerConfig]:
        return load_server_config(self.path, cli=cli or {}, environ=environ or {})

    def ensure(self, *, cli: dict[str, str] | None = None, environ: dict[str, str] | None = None) -> Identity:
        return ensure_identity(self.load(cli=cli, environ=environ), random_bytes=random_bytes)

    @property
    def with_id(self) -> str:
        return self.text.replace("node:\n", f"node:\n  id: {GENERATED}\n")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(
    ("explicit", "mode", "state_file"), list(itertools.product([True, False], ["cluster", "local"], [True, False]))
)
def test_decide(explicit: bool, mode: str, state_file: bool) -> None:
    expected = {
        (False, "local", True): Origin.LOCAL,
        (False, "local", False): Origin.LOCAL,
        (False, "cluster", True): Origin.STATE_FILE,
        (False, "cluster", False): Origin.GENERATED,
    }
    found = decide(mode=mode, explicit=explicit, state_file=state_file)
    assert found is expected.get((explicit, mode, state_file), Origin.EXPLICIT)


def test_a_new_identity_is_written_into_the_file(host: Host) -> None:
    assert host.ensure() == Identity(GENERATED, Origin.GENERATED, "generated", written=host.path)
    assert host.path.read_text() == host.with_id
    assert not host.state_file.exists()
    again = host.ensure()
    assert again == Identity(GENERATED, Origin.EXPLICIT, f"file {host.path}:3")


def test_the_generator_gives_32_hex_digits_and_another_id_each_time(host: Host, tmp_path: Path) -> None:
    first = ensure_identity(host.load()).node_id
    host.path.write_text(host.text)
    second = ensure_identity(host.load()).node_id
    assert first != second
    assert is_node_id(first)
    assert len(first) == len("server-") + 32


@pytest.mark.parametrize("given", ["command line", "environment", "file"])
def test_an_explicit_identity_is_used_and_written_nowhere(host: Host, given: str) -> None:
    host.state_file.write_text("not even looked at")
    if given == "file":
        host.path.write_text(host.text.replace("node:\n", "node:\n  id: mine\n"))
    before = host.path.read_text()
    identity = host.ensure(
        cli={"node.id": "mine"} if given == "command line" else {},
        environ={"TUNNELMESH_NODE_ID": "mine"} if given == "environment" else {},
    )
    assert (identity.node_id, identity.origin, identity.written) == ("mine", Origin.EXPLICIT, None)
    assert identity.source.startswith(given)
    assert host.path.read_text() == before


def test_command_line_over_environment_over_file_over_state_file(host: Host) -> None:
    host.path.write_text(host.text.replace("node:\n", "node:\n  id: from-file\n"))
    host.state_file.write_text("from-state\n")
    environ = {"TUNNELMESH_NODE_ID": "from-environment"}
    assert host.ensure(cli={"node.id": "from-cli"}, environ=environ).node_id == "from-cli"
    assert host.ensure(environ=environ).node_id == "from-environment"
    assert host.ensure().node_id == "from-file"
    host.path.write_text(host.text)
    assert host.ensure().node_id == "from-state"


def test_an_empty_environment_variable_gives_no_identity(host: Host) -> None:
    assert host.ensure(environ={"TUNNELMESH_NODE_ID": ""}).origin is Origin.GENERATED


@pytest.mark.parametrize("text", [KEPT, f"{KEPT}\n"])
def test_the_state_file_is_reused_and_copied_into_the_file(host: Host, text: str) -> None:
    host.state_file.write_text(text)
    identity = host.ensure()
    assert identity == Identity(KEPT, Origin.STATE_FILE, f"state file {host.state_file}", written=host.path)
    assert host.path.read_text() == host.with_id.replace(GENERATED, KEPT)
    assert host.state_file.read_text() == text


def test_the_state_file_serves_a_file_that_cannot_be_written(host: Host) -> None:
    host.state_file.write_text(KEPT)
    (host.path.parent / "twin.yaml").hardlink_to(host.path)
    identity = host.ensure()
    assert (identity.node_id, identity.written) == (KEPT, None)
    assert identity.unwritten is not None
    assert identity.unwritten.code == "several_names"
    assert host.path.read_text() == host.text


def test_without_a_state_file_a_file_that_cannot_be_written_is_an_error(host: Host) -> None:
    (host.path.parent / "twin.yaml").hardlink_to(host.path)
    with pytest.raises(Refused):
        host.ensure()
    assert host.path.read_text() == host.text
    assert not host.state_file.exists()


def test_without_a_configuration_file_nothing_is_generated(tmp_path: Path) -> None:
    loaded = load_server_config(None, environ={"TUNNELMESH_NODE_STATE_DIR": str(tmp_path)})
    with pytest.raises(Refused) as refusal:
        ensure_identity(loaded)
    assert "init_node_id --config" in refusal.value.hint
    assert list(tmp_path.iterdir()) == []


def test_local_mode_generates_nothing(host: Host) -> None:
    host.configure("mode: local\n")
    host.state_file.write_text("not even looked at")
    identity = host.ensure()
    assert (identity.node_id, identity.origin) == (LOCAL_NODE_ID, Origin.LOCAL)
    assert check_node_id(LOCAL_NODE_ID)
    assert host.path.read_text() == host.text


def test_local_mode_takes_an_explicit_identity(host: Host) -> None:
    host.configure("mode: local\n")
    assert host.ensure(cli={"node.id": "mine"}).node_id == "mine"


def test_finding_creates_nothing(host: Host) -> None:
    assert find_identity(host.load()) is None
    assert host.path.read_text() == host.text
    host.state_file.write_text(KEPT)
    identity = find_identity(host.load())
    assert identity is not None
    assert (identity.node_id, identity.written) == (KEPT, None)
    assert host.path.read_text() == host.text


def test_an_id_that_another_process_wrote_meanwhile_wins(host: Host) -> None:
    loaded = host.load()
    host.path.write_text(host.with_id.replace(GENERATED, "faster"))
    identity = ensure_identity(loaded, random_bytes=random_bytes)
    assert (identity.node_id, identity.origin, identity.written) == ("faster", Origin.EXPLICIT, None)


def test_an_unusable_id_that_another_process_wrote_meanwhile_is_an_error(host: Host) -> None:
    loaded = host.load()
    host.path.write_text(host.with_id.replace(GENERATED, "'Not Valid'"))
    with pytest.raises(Invalid, match="is not a node id"):
        ensure_identity(loaded, random_bytes=random_bytes)


def refused(host: Host) -> DomainError:
    """The refusal of the state file; nothing of what it holds is shown, and nothing is written."""
    with pytest.raises(Refused) as refusal:
        host.ensure()
    assert refusal.value.code == "bad_state_file"
    assert str(host.state_file) in refusal.value.message
    assert "root:" not in str(refusal.value)
    assert host.path.read_text() == host.text
    return refusal.value


@pytest.mark.parametrize(
    "content",
    ["", "\n", "Server-A", "a b", "server-a\n\n", " server-a", "a" * 64, "a" * 300, "root:x:0:0\n", "sërver", "a\x00"],
)
def test_a_state_file_without_a_node_id_is_refused(host: Host, content: str) -> None:
    host.state_file.write_text(content)
    assert "does not hold a node id" in refused(host).message


def test_a_state_file_that_is_a_link_is_refused(host: Host) -> None:
    secret = host.path.with_name("secret")
    secret.write_text("root:x:0:0\n")
    host.state_file.symlink_to(secret)
    assert "is a symbolic link" in refused(host).message


def test_a_state_file_that_is_a_folder_or_a_pipe_is_refused_without_waiting(host: Host) -> None:
    host.state_file.mkdir()
    assert "is not a regular file" in refused(host).message
    host.state_file.rmdir()
    os.mkfifo(host.state_file)
    assert "is not a regular file" in refused(host).message


def test_a_state_file_that_cannot_be_read_is_refused_and_not_replaced(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def denied(path: object, *arguments: int, **named: int) -> int:
        if path == host.state_file:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", denied)
    assert "Permission denied" in refused(host).message


@pytest.mark.parametrize("missing", ["file", "folder", "parent is a file"])
def test_no_state_file_is_no_error(host: Host, missing: str) -> None:
    if missing != "file":
        host.state_file.parent.rmdir()
    if missing == "parent is a file":
        host.state_file.parent.write_text("")
    assert host.ensure().origin is Origin.GENERATED
