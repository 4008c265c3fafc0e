"""Processes that end in mid-stream: the user sees a reset, never a clean end; the way comes back without a hand."""

from collections.abc import Iterator

import pytest

from relay.demo import check
from relay.demo.service import CHUNK, random_chunks
from relay.demo.shape import Agent, Entry, Shape
from relay.demo.topology import Topology
from relay.demo.wait import wait_until
from tests.support.mesh import LaunchMesh

SECONDS = 30.0
FOREVER, SEED = 10**12, 7
PROCESSES = ("node-a", "node-b", "agent-1")


def works(mesh: Topology) -> bool:
    """Whether a new connection of a user reaches the service."""
    try:
        check.greeting(mesh.entries["web"])
    except (OSError, check.Mismatch):
        return False
    return True


def wait_for_the_way(mesh: Topology) -> None:
    wait_until(lambda: works(mesh), seconds=SECONDS, what="a user reaches the service", watch=mesh.check_alive)


@pytest.fixture(autouse=True)
def whole(mesh: Topology) -> Iterator[None]:
    """Every process runs before the test, and runs again after it, whatever the test did."""
    wait_for_the_way(mesh)
    yield
    for process in mesh.processes.values():
        if not process.running:
            process.start()


@pytest.mark.parametrize("victim", PROCESSES)
def test_kill_in_mid_stream_is_a_reset_for_the_user(mesh: Topology, victim: str) -> None:
    with check.request(mesh.entries["web"], "GET", f"/bytes?n={FOREVER}&seed={SEED}") as answer:
        content = random_chunks(SEED, FOREVER)
        answer.expect([next(content) for _ in range(16)], what="the beginning")
        mesh.process(victim).kill()
        with pytest.raises(ConnectionResetError):
            answer.expect(content, what="what was under way")
    mesh.process(victim).start()
    mesh.wait_ready()
    wait_for_the_way(mesh)


@pytest.mark.parametrize("victim", PROCESSES)
def test_kill_is_a_reset_for_an_idle_user_too(mesh: Topology, victim: str) -> None:
    """Nothing is under way in either direction: the end alone must be told, and told as a reset."""
    with check.request(mesh.entries["web"], "POST", "/echo", body=2 * CHUNK) as answer:
        answer.send([b"x" * CHUNK])
        answer.expect([b"x" * CHUNK], what="echo")
        mesh.process(victim).kill()
        with pytest.raises(ConnectionResetError):
            answer.expect([b"x"], what="nothing")


def test_stopping_the_relaying_node_ends_the_tunnel_and_starting_it_brings_it_back(mesh: Topology) -> None:
    node_b = mesh.process("node-b")
    assert node_b.stop(SECONDS)
    assert node_b.wait(0) == 0
    assert not works(mesh)
    node_b.start()
    mesh.wait_ready()
    wait_for_the_way(mesh)


def test_agent_is_back_elsewhere(launch_mesh: LaunchMesh) -> None:
    """The agent is connected to two nodes; the one that carries the stream dies and is not started again."""
    mesh = launch_mesh(
        Shape(
            nodes=("node-a", "node-b", "node-c"),
            agents=(Agent("agent-1", nodes=("node-b", "node-c")),),
            entries=(Entry("web", node="node-a", agent="agent-1"),),
        )
    )
    for victim in ("node-b", "node-c"):
        mesh.process(victim).kill()
        wait_until(lambda: works(mesh), seconds=SECONDS, what="the way by the other node", watch=lambda: None)
        mesh.process(victim).start()
        mesh.wait_ready()
