"""The admission checks at a real node's door (F8-F11, P1): each fails alone, with everything else right."""

import json
import shutil
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from relay.demo.pki import Authority, Pair
from relay.demo.shape import one_node
from relay.demo.topology import Topology
from tests.support.certs import ADMITTED, CLAIMED, FORBIDDEN, TLS_ENDS, UNAUTHENTICATED, ZOO, Animal
from tests.support.door import Reply, call
from tests.support.mesh import LaunchMesh
from tests.support.operator import manage
from tests.support.records import EPOCH, put_node

STATUS = {UNAUTHENTICATED: 401, FORBIDDEN: 403}


@pytest.fixture(scope="module")
def mesh(launch_mesh: LaunchMesh) -> Topology:
    return launch_mesh(one_node())


@dataclass(frozen=True)
class Fleet:
    """What the callers at the door of ``mesh`` need."""

    mesh: Topology
    folder: Path

    @property
    def authority(self) -> Authority:
        return self.mesh.certificates.authority

    @property
    def database(self) -> Path:
        return self.mesh.folder.path / "tunnelmesh.sqlite3"

    @property
    def token(self) -> str:
        return (self.mesh.folder.path / "secrets" / "node-token").read_text()

    def headers(self, **changes: str | None) -> dict[str, str]:
        """The right heads, but for the changes: token, node, epoch (None leaves a head out)."""
        said = {"token": self.token, "node": CLAIMED, "epoch": str(EPOCH)} | changes
        heads = {
            "Authorization": said["token"] and f"Bearer {said['token']}",
            "TunnelMesh-Node": said["node"],
            "TunnelMesh-Epoch": said["epoch"],
        }
        return {name: value for name, value in heads.items() if value is not None}

    def call(self, *, pair: Pair | None = None, **changes: str | None) -> Reply:
        """Call at `/relay` as `server-a`, right but for the changes."""
        pair = pair or self.authority.issue(CLAIMED, dns=(CLAIMED,))
        port = self.mesh.layout.nodes["node-b"].relay
        return call(port, "/relay", self.headers(**changes), pair=pair, folder=self.folder)

    def issue(self, *arguments: str) -> str:
        """A new token, from the operator's command."""
        done = manage("issue_token", *arguments, "--config", str(self.mesh.folder.path / "node-b.yaml"))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def fleet(mesh: Topology, tmp_path: Path) -> Fleet:
    """A fleet in which `server-a` is a member in good standing."""
    made = Fleet(mesh, tmp_path)
    put_node(made.database, CLAIMED)
    return made


def assert_refused(reply: Reply, status: int, code: str) -> None:
    """The answer is the problem document of design.md, section 3, and gives away no secret and no reason."""
    assert (reply.status, reply.problem["status"], reply.problem["code"]) == (status, status, code)
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["connection"] == "close"
    assert set(reply.problem) == {"type", "title", "status", "code", "detail"}


def test_all_conditions_right(fleet: Fleet) -> None:
    reply = fleet.call()
    assert reply.status == 101
    assert reply.headers["upgrade"] == "yamux"
    assert reply.headers["tunnelmesh-node"] == "node-b"
    assert int(reply.headers["tunnelmesh-epoch"]) > 0


class TestToken:
    """F8 (a)."""

    @pytest.mark.parametrize("token", [None, "", "tmn_" + "x" * 49, "wrong"])
    def test_none_or_unknown(self, fleet: Fleet, token: str | None) -> None:
        reply = fleet.call(token=token)
        assert (reply.status, reply.problem["code"]) in [(401, "unauthenticated"), (400, "bad_request")]
        if token != "":
            assert_refused(reply, 401, UNAUTHENTICATED)

    def test_of_another_type(self, fleet: Fleet) -> None:
        agent = (fleet.mesh.folder.path / "secrets" / "agent-1").read_text()
        assert_refused(fleet.call(token=agent), 401, UNAUTHENTICATED)


class TestCertificate:
    """F8 (b) and (c)."""

    def test_none(self, fleet: Fleet) -> None:
        port = fleet.mesh.layout.nodes["node-b"].relay
        with pytest.raises((ssl.SSLError, ConnectionError)):
            call(port, "/relay", fleet.headers(), pair=None, folder=fleet.folder)

    @pytest.mark.parametrize("animal", ZOO, ids=lambda animal: animal.name)
    def test_zoo(self, fleet: Fleet, animal: Animal) -> None:
        pair = animal.make(fleet.authority)
        if animal.outcome == TLS_ENDS:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                fleet.call(pair=pair)
        elif animal.outcome == ADMITTED:
            assert fleet.call(pair=pair).status == 101
        else:
            assert_refused(fleet.call(pair=pair), STATUS[animal.outcome], animal.outcome)


class TestRecord:
    """F8 (d) and (e)."""

    def test_absent(self, fleet: Fleet) -> None:
        pair = fleet.authority.issue("stranger", dns=("stranger",))
        assert_refused(fleet.call(pair=pair, node="stranger"), 401, UNAUTHENTICATED)

    @pytest.mark.parametrize(
        ("change", "status", "code"),
        [
            ({"enabled": False}, 403, FORBIDDEN),
            ({"deleted": True}, 403, FORBIDDEN),
            ({"deleted": True, "enabled": False}, 403, FORBIDDEN),
            ({"expires_in": timedelta(seconds=-1)}, 412, "stale"),
            ({"epoch": EPOCH + 1}, 412, "stale"),
            ({"epoch": EPOCH - 1}, 412, "stale"),
            ({"beat_epoch": EPOCH - 1}, 412, "stale"),
        ],
    )
    def test_unusable(self, fleet: Fleet, change: dict[str, object], status: int, code: str) -> None:
        put: Callable[..., None] = put_node
        put(fleet.database, CLAIMED, **change)
        assert_refused(fleet.call(), status, code)

    @pytest.mark.parametrize("epoch", [None, "", "-1", "7.0", "seven", "0x7", "9" * 30])
    def test_epoch_that_is_none(self, fleet: Fleet, epoch: str | None) -> None:
        assert_refused(fleet.call(epoch=epoch), 400, "bad_request")


class TestAllowlist:
    """F8 (f)."""

    def test_names_other_nodes_only(self, fleet: Fleet) -> None:
        token = fleet.issue("--type", "server_node", "--name", "others", "--node", "node-b")
        assert_refused(fleet.call(token=token), 403, FORBIDDEN)

    def test_names_this_node(self, fleet: Fleet) -> None:
        token = fleet.issue("--type", "server_node", "--name", "ours", "--node", CLAIMED)
        assert fleet.call(token=token).status == 101


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_plain_curl_shows_the_problem_document(fleet: Fleet) -> None:
    """Everything right but the epoch, told by a program that knows nothing of us."""
    cert, key = fleet.authority.issue(CLAIMED, dns=(CLAIMED,)).write(fleet.folder, "curl")
    heads = fleet.headers(epoch="0") | {"Connection": "Upgrade", "Upgrade": "yamux"}
    words = ["curl", "-sS", "-i", "--http1.1", "--max-time", "20", "--cert", str(cert), "--key", str(key)]
    words += ["--cacert", str(fleet.mesh.folder.path / "pki" / "ca.pem")]
    for name, value in heads.items():
        words += ["-H", f"{name}: {value}"]
    words.append(f"https://127.0.0.1:{fleet.mesh.layout.nodes['node-b'].relay}/relay")
    shown = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    head, _, body = shown.partition("\n\n")
    assert head.startswith("HTTP/1.1 412")
    assert json.loads(body)["code"] == "stale"
