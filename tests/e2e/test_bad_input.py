"""`run_relay` and `run_agent` given something wrong: a clear error, the right exit code, and nothing written."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from relay.demo.pki import Authority
from relay.demo.shape import one_node
from relay.demo.topology import Topology
from tests.support.mesh import LaunchMesh
from tests.support.operator import manage
from tunnelmesh.common.errors import ExitCode

REFUSED, FAILED, USAGE = ExitCode.REFUSED_CONFIG, ExitCode.FAILED, ExitCode.USAGE
Content = dict[str, dict[str, dict[str, object]]]
Change = Callable[[Content, Path], None]


@pytest.fixture(scope="module")
def mesh(launch_mesh: LaunchMesh) -> Topology:
    """A mesh that has run, and stands still now: its files are right."""
    made = launch_mesh(one_node())
    made.stop()
    return made


def content_of(folder: Path) -> dict[Path, bytes]:
    """Every file, but for SQLite's shared memory, which a mere reader changes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")}


def assert_refused(mesh: Topology, words: list[str], code: int, *texts: str) -> None:
    """The command ends with the code and every text on standard error, no traceback, and all files are as before."""
    before = content_of(mesh.folder.path)
    done = manage(*words)
    assert done.returncode == code, done.stderr
    for text in texts:
        assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert content_of(mesh.folder.path) == before


def changed(mesh: Topology, name: str, change: Change, folder: Path) -> str:
    """A copy of a configuration file of the mesh with a change; returns its path."""
    yaml = YAML()
    content = yaml.load(mesh.folder.path / name)
    change(content, folder)
    path = folder / name
    yaml.dump(content, path)
    return str(path)


def put(value: object, *keys: str) -> Change:
    """Set one key, given by its way from the top; None takes it out."""

    def change(content: Content, _: Path) -> None:
        place: dict[str, object] = content  # type: ignore[assignment]
        for key in keys[:-1]:
            place = place[key]  # type: ignore[assignment]
        if value is None:
            del place[keys[-1]]
        else:
            place[keys[-1]] = value

    return change


def relay_certificate_of(node_id: str) -> Change:
    """Give the node a relay certificate for ``node_id``."""

    def change(content: Content, folder: Path) -> None:
        cert, key = Authority.new("x").issue(node_id, dns=(node_id,)).write(folder, "relay")
        content["server"]["relay"] |= {"cert": str(cert), "key": str(key)}

    return change


def key_of_another(content: Content, folder: Path) -> None:
    _, key = Authority.new("x").issue("node-b").write(folder, "other")
    content["server"]["relay"]["key"] = str(key)


class Case(NamedTuple):
    """What is wrong, and what the command must make of it."""

    name: str
    change: Change
    code: int
    texts: tuple[str, ...]


def case(name: str, change: Change, code: int, *texts: str) -> Case:
    return Case(name, change, code, texts)


def cases(listed: list[Case]) -> list[Any]:
    return [pytest.param(*each[1:], id=each.name) for each in listed]


NODE = [
    case("unknown key", put("x", "server", "relay", "lisen"), REFUSED, "lisen", "listen"),
    case("bad id", put("Node_B", "node", "id"), REFUSED, "node.id"),
    case("no authority", put("/nonexistent/ca.pem", "server", "relay", "ca"), REFUSED, "/nonexistent/ca.pem"),
    case("no certificate", put("/nonexistent/b.pem", "server", "relay", "cert"), REFUSED, "/nonexistent/b.pem"),
    case("key of another certificate", key_of_another, REFUSED, "other.key"),
    case("certificate of another node", relay_certificate_of("node-z"), REFUSED, "node-z", "node-b"),
    case(
        "no agents' certificate", put("/nonexistent/a.pem", "server", "agents", "cert"), REFUSED, "/nonexistent/a.pem"
    ),
    case("no token", put("file:/nonexistent/token", "server", "relay", "node_token"), REFUSED, "/nonexistent/token"),
    case("token of the store", put("store:a/b#c", "server", "relay", "node_token"), REFUSED, "store:"),
    case("no database file", put("sqlite:////nonexistent/db.sqlite3", "database", "url"), REFUSED, "/nonexistent/db"),
    case("not a database", put("oracle://x/y", "database", "url"), REFUSED, "database.url"),
]
AGENT = [
    case("unknown key", put("x", "servers_"), REFUSED, "servers_"),
    case("no pin and no authority", put(None, "pins"), REFUSED, "pins", "ca"),
    case("no token", put("file:/nonexistent/token", "token"), REFUSED, "/nonexistent/token"),
    case("rule without a port", put(["127.0.0.1"], "allow"), REFUSED, "allow", "127.0.0.1"),
    case("no authority", put("/nonexistent/ca.pem", "ca"), REFUSED, "/nonexistent/ca.pem"),
]


@pytest.mark.parametrize(("change", "code", "texts"), cases(NODE))
def test_node(mesh: Topology, tmp_path: Path, change: Change, code: int, texts: tuple[str, ...]) -> None:
    path = changed(mesh, "node-b.yaml", change, tmp_path)
    assert_refused(mesh, ["run_relay", "--config", path], code, *texts)


@pytest.mark.parametrize(("change", "code", "texts"), cases(AGENT))
def test_agent(mesh: Topology, tmp_path: Path, change: Change, code: int, texts: tuple[str, ...]) -> None:
    path = changed(mesh, "agent-1.yaml", change, tmp_path)
    assert_refused(mesh, ["run_agent", "--config", path], code, *texts)


@pytest.mark.parametrize(
    ("command", "text"), [("run_relay", None), ("run_relay", "a: [1\n"), ("run_agent", None), ("run_agent", "- a\n")]
)
def test_file_that_is_no_configuration(mesh: Topology, tmp_path: Path, command: str, text: str | None) -> None:
    path = tmp_path / "some.yaml"
    if text is not None:
        path.write_text(text)
    assert_refused(mesh, [command, "--config", str(path)], REFUSED, str(path))


@pytest.mark.parametrize("command", ["run_relay", "run_agent"])
def test_unknown_option(mesh: Topology, command: str) -> None:
    assert_refused(mesh, [command, "--confg", "x"], USAGE, "--confg")


@pytest.mark.parametrize("door", ["relay", "admin"])
def test_port_that_is_taken(mesh: Topology, door: str) -> None:
    """Found while listening: the node has registered by then, and says why it ends."""
    port = getattr(mesh.layout.nodes["node-b"], door)
    with socket.create_server(("127.0.0.1", port)):
        done = manage("run_relay", "--config", str(mesh.folder.path / "node-b.yaml"))
    assert done.returncode == FAILED
    assert f"127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_unreadable_key_pair_names_no_secret(mesh: Topology, tmp_path: Path) -> None:
    """A literal token in a file that is refused for something else stays out of the message."""
    secret = "tmn_" + "s" * 49
    change = put(secret, "server", "relay", "node_token")
    path = changed(mesh, "node-b.yaml", change, tmp_path)
    text = Path(path).read_text() + "unknown: 1\n"
    Path(path).write_text(text)
    done = manage("run_relay", "--config", path)
    assert done.returncode == REFUSED
    assert secret not in done.stdout + done.stderr
