"""`manage.py demo`, as a user runs it: real processes, looked at from outside."""

import json
import os
import signal
import stat
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from relay.demo.commands import MANAGE, ROOT
from relay.demo.folder import Folder
from relay.demo.pki import Pair
from relay.demo.ports import is_free
from relay.demo.process import Process
from relay.demo.service import GREETING
from relay.demo.wait import wait_until
from tests.support.door import call
from tests.support.leaks import sockets_of

SECONDS = 60.0
ENV = {**os.environ, "DJANGO_SETTINGS_MODULE": "tunnelmesh.settings.dev"}

pytestmark = pytest.mark.e2e


class Demo:
    """A demo as a child process; what it prints is its log."""

    def __init__(self, state: Path, log: Path, *options: str) -> None:
        self.state = state
        words = (*MANAGE, "demo", "--state", str(state), *options)
        self.process = Process("demo", words, log=log, env=ENV, keep_open=2)
        self.pids: dict[str, int | None] = {}
        self.process.start()

    @property
    def description(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "demo.json").read_text())
        return found

    @property
    def output(self) -> str:
        return self.process.log.read_text()

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.output, seconds=SECONDS, what=text, watch=self.process.check)

    def ends(self) -> int:
        """Its exit code; fails when a process or a port of it is still there."""
        code = self.process.wait(SECONDS)
        pids = [pid for pid in self.pids.values() if pid and Path(f"/proc/{pid}").exists()]
        assert pids == []
        return code

    def note_pids(self) -> None:
        self.pids = self.description["pids"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "demo"


@contextmanager
def holding(folder: Path) -> Iterator[Demo]:
    """A demo that is up, and stays until it is told to stop."""
    running = Demo(folder / "demo", folder / "output")
    try:
        running.wait_for("Ctrl-C ends it all.")
        running.note_pids()
        yield running
    finally:
        running.process.stop(SECONDS)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo for a test that ends it or does it harm."""
    with holding(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo for tests that only look at it."""
    with holding(tmp_path_factory.mktemp("calm")) as running:
        yield running


def ports_of(description: dict[str, Any]) -> list[int]:
    addresses = [node[door] for node in description["nodes"] for door in ("relay", "agents", "admin")]
    return [int(address.rpartition(":")[2]) for address in addresses] + [description["entry"]["port"]]


def test_once_checks_the_tunnel_twice_in_one_folder(state: Path, tmp_path: Path) -> None:
    first = Demo(state, tmp_path / "first", "--once")
    assert first.process.wait(SECONDS) == 0, first.output
    for name in ("greeting", "download", "upload", "both ways", "half-close"):
        assert name in first.output
    described = first.description
    assert not described["running"]
    assert set(described["pids"].values()) == {None}
    assert all(map(is_free, ports_of(described)))

    kept = {path: path.read_bytes() for path in [*state.glob("pki/*"), *state.glob("secrets/*")]}
    second = Demo(state, tmp_path / "second", "--once")
    assert second.process.wait(SECONDS) == 0, second.output
    assert {path: path.read_bytes() for path in kept} == kept


def test_everything_that_a_script_needs_is_in_demo_json(calm: Demo, tmp_path: Path) -> None:
    described = calm.description
    assert stat.S_IMODE((calm.state / "demo.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(calm.state.stat().st_mode) == 0o700
    assert [node["id"] for node in described["nodes"]] == ["node-a", "node-b"]
    processes = [*described["nodes"], *described["agents"], described["service"], described["web"]]
    assert all(sockets_of(process["pid"]) for process in processes)
    assert all(Path(process["log"]).is_relative_to(calm.state) for process in processes)

    assert urllib.request.urlopen(described["entry"]["url"], timeout=SECONDS).read() == GREETING
    assert urllib.request.urlopen(described["service"]["url"], timeout=SECONDS).read() == GREETING
    relay = int(described["nodes"][1]["relay"].rpartition(":")[2])
    bearer = {"Authorization": f"Bearer {described['tokens']['server_node']}"}
    heads = bearer | {"TunnelMesh-Node": "node-a", "TunnelMesh-Epoch": "0"}
    reply = call(relay, "/relay", heads, pair=Pair.read(calm.state / "pki", "node-a"), folder=tmp_path)
    assert (reply.status, reply.problem["code"]) == (412, "stale")


def test_administrator_can_log_in(calm: Demo) -> None:
    web, admin = calm.description["web"], calm.description["admin"]
    jar = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    page = jar.open(web["admin_url"], timeout=SECONDS).read().decode()
    token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    form = {"csrfmiddlewaretoken": token, "next": "/admin/", **admin}
    answer = jar.open(web["admin_url"] + "login/", urllib.parse.urlencode(form).encode(), timeout=SECONDS)
    assert "node-a" in jar.open(web["admin_url"] + "nodes/servernode/", timeout=SECONDS).read().decode()
    assert answer.status == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_behind(demo: Demo, number: signal.Signals) -> None:
    described = demo.description
    os.kill(demo.process.pid, number)
    assert demo.ends() == 0
    assert all(map(is_free, ports_of(described)))
    assert not demo.description["running"]
    assert list(demo.state.rglob("*.new")) == []
    assert "killed" not in demo.output


def test_a_signal_during_the_start_leaves_nothing_behind(state: Path, tmp_path: Path) -> None:
    demo = Demo(state, tmp_path / "output")
    demo.wait_for("certificates: ")
    os.kill(demo.process.pid, signal.SIGHUP)
    assert demo.process.wait(SECONDS) == 130
    assert set(demo.description["pids"].values()) == {None}
    assert all(map(is_free, ports_of(demo.description)))


def test_a_process_that_dies_is_reported_with_its_log(demo: Demo) -> None:
    os.kill(demo.description["agents"][0]["pid"], signal.SIGKILL)
    demo.wait_for("agent-1 ended (signal SIGKILL)")
    demo.wait_for("To start it again: ")
    wait_until(
        lambda: demo.description["pids"]["agent-1"] is None,
        seconds=SECONDS,
        what="it is noted",
        watch=demo.process.check,
    )
    again = demo.description["agents"][0]["command"]
    with subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as agent:
        url = demo.description["entry"]["url"]

        def works() -> bool:
            try:
                return bool(urllib.request.urlopen(url, timeout=SECONDS).read() == GREETING)
            except OSError:
                return False

        wait_until(works, seconds=SECONDS, what="the tunnel is back", watch=demo.process.check)
        agent.terminate()


def test_a_second_demo_in_the_same_folder_is_refused(calm: Demo, tmp_path: Path) -> None:
    second = Demo(calm.state, tmp_path / "second")
    assert second.process.wait(SECONDS) == 1
    assert f"A demo is alive in {calm.state}" in second.output
    assert str(calm.pids["node-a"]) in second.output
    assert urllib.request.urlopen(calm.description["entry"]["url"], timeout=SECONDS).read() == GREETING


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "mine"
    state.mkdir()
    (state / "thesis.txt").write_text("x")
    demo = Demo(state, tmp_path / "output")
    assert demo.process.wait(SECONDS) == 1
    assert "holds other things than a demo" in demo.output
    assert [path.name for path in state.iterdir()] == ["thesis.txt"]


def test_a_start_that_fails_tells_why_and_leaves_nothing(state: Path, tmp_path: Path) -> None:
    state.mkdir()
    (state / "lock").touch()
    (state / "tunnelmesh.sqlite3").write_text("no database at all" * 100)
    demo = Demo(state, tmp_path / "output", "--once")
    assert demo.process.wait(SECONDS) == 1
    assert "database ended (exit code 1)" in demo.output
    assert "file is not a database" in demo.output
    assert set(demo.description["pids"].values()) == {None}


def test_a_reader_that_goes_away_ends_it(state: Path) -> None:
    """`manage.py demo | head -1`: the second line finds nobody, which is no reason to leave processes behind."""
    words = [*MANAGE, "demo", "--state", str(state)]
    with subprocess.Popen(words, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout
        demo.stdout.readline()
        demo.stdout.close()
        assert demo.wait(SECONDS) != 0
    Folder(state).close()


def test_unknown_option_is_a_usage_error(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo", tmp_path / "output", "--twice")
    assert demo.process.wait(SECONDS) == 2
    assert not (tmp_path / "demo").exists()


def test_default_folder_is_ignored_by_git() -> None:
    assert subprocess.run(["git", "check-ignore", "-q", ".demo/"], cwd=ROOT, check=False).returncode in (0, 128)
