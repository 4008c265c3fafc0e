"""A node's sessions to other nodes: whom they reach, when they are dialled again, when they are given up (R6, R7)."""

from __future__ import annotations

import asyncio

import pytest

from relay.demo.ports import LOOPBACK, free_ports
from relay.net.mux import Mux
from relay.node import peers as module
from relay.protocol.connect import ConnectRequest
from relay.protocol.problem import Problem
from relay.router import Peer
from tests.support.cluster import Cluster, RunningNode, eventually
from tests.support.proxy import Proxy


def hop(node: RunningNode, *, port: int | None = None, epoch: int | None = None, node_id: str = "") -> Peer:
    """The way to a node as a lease describes it, but for the changes."""
    me = node.node.runtime.me
    address = f"{LOOPBACK}:{port or node.relay_port}"
    return Peer(node_id or me.node_id, address, me.epoch if epoch is None else epoch)


async def ask(node: RunningNode, way: Peer) -> Mux | Problem:
    """What `node` gets when a stream wants this way."""
    assert node.node.peers is not None
    answer: asyncio.Future[Mux | Problem] = asyncio.get_running_loop().create_future()
    node.node.peers.ask(way, answer.set_result)
    return await asyncio.wait_for(answer, 10)


def problem(answer: Mux | Problem) -> str:
    """The detail of a refusal whose code says that the stream has not left this node."""
    assert isinstance(answer, Problem)
    assert answer.code in ("peer_unreachable", "no_agent")
    return answer.detail


@pytest.fixture
async def two(cluster: Cluster) -> tuple[RunningNode, RunningNode]:
    return await cluster.start_node("node-a"), await cluster.start_node("node-b")


Two = tuple[RunningNode, RunningNode]


class TestWhoIsMeant:
    async def test_other_nodes_certificate(self, cluster: Cluster, two: Two) -> None:
        node_a, node_b = two
        node_c = await cluster.start_node("node-c")
        answer = await ask(node_a, hop(node_b, port=node_c.relay_port))
        assert "verify: the certificate is for node 'node-c', meant 'node-b'" in problem(answer)
        assert len(node_c.node.callers) == 0

    async def test_lease_of_the_process_before(self, two: Two) -> None:
        """The dial reaches the newer process: the stream may not use it, the session stays for those that may."""
        node_a, node_b = two
        assert "restarted" in problem(await ask(node_a, hop(node_b, epoch=0)))
        assert isinstance(await ask(node_a, hop(node_b)), Mux)
        assert len(node_b.node.callers) == 1
        assert "restarted" in problem(await ask(node_a, hop(node_b, epoch=0)))

    async def test_process_that_is_older_than_the_lease(self, two: Two) -> None:
        node_a, node_b = two
        assert "meant epoch 9, reached node node-b at epoch 1" in problem(await ask(node_a, hop(node_b, epoch=9)))

    async def test_record_without_a_usable_address(self, two: Two) -> None:
        assert "has the address ''" in problem(await ask(two[0], Peer("node-x", "", 1)))

    async def test_restarted_node_is_dialled_at_once(self, cluster: Cluster, two: Two) -> None:
        node_a, node_b = two
        first = await ask(node_a, hop(node_b))
        await node_b.end()
        again = await cluster.start_node("node-b", config=node_b.config)
        second = await ask(node_a, hop(again))
        assert isinstance(first, Mux)
        assert first.closed
        assert isinstance(second, Mux)
        assert again.node.runtime.me.epoch == 2

    async def test_moved_node_is_dialled_at_its_new_address(self, two: Two) -> None:
        node_a, node_b = two
        first = await ask(node_a, hop(node_b))
        async with Proxy(node_b.relay_port) as proxy:
            second = await ask(node_a, hop(node_b, port=proxy.port, epoch=2))
            assert "meant epoch 2" in problem(second)
            assert proxy.accepted >= 1
        assert isinstance(first, Mux)
        assert first.closed


class TestLosses:
    async def test_lost_session_is_dialled_again_by_itself(self, two: Two) -> None:
        node_a, node_b = two
        async with Proxy(node_b.relay_port) as proxy:
            first = await ask(node_a, hop(node_b, port=proxy.port))
            proxy.cut()
            await eventually(lambda: proxy.accepted == 2 and len(list(node_a.node.peers or ())) == 1)
            second = await ask(node_a, hop(node_b, port=proxy.port))
            assert second is not first
            assert isinstance(second, Mux)

    async def test_dead_wire_is_a_refusal_within_the_dial_limit_and_healed(self, cluster: Cluster) -> None:
        node_b = await cluster.start_node("node-b")
        node_a = await cluster.start_node("node-a", handshake=0.2)
        async with Proxy(node_b.relay_port) as proxy:
            proxy.silence()
            answer = await ask(node_a, hop(node_b, port=proxy.port))
            assert "tls: no handshake within" in problem(answer)
            assert node_a.node.peers is not None
            assert node_a.node.peers.unreachable() == ["node-b"]
            proxy.resume()
            await eventually(lambda: node_a.node.peers and node_a.node.peers.unreachable() == [])
            assert isinstance(await ask(node_a, hop(node_b, port=proxy.port)), Mux)

    async def test_streams_fail_fast_while_a_dial_would_only_repeat(self, two: Two) -> None:
        nowhere = Peer("node-x", f"{LOOPBACK}:{free_ports(1)[0]}", 1)
        for _ in range(3):
            assert "node-x: connect:" in problem(await ask(two[0], nowhere))

    async def test_our_own_token_is_read_anew_for_every_dial(self, cluster: Cluster, two: Two) -> None:
        node_a, node_b = two
        file = cluster.folder / "node-token"
        kept = file.read_text()
        file.unlink()
        assert "our own token" in problem(await ask(node_a, hop(node_b)))
        file.write_text(kept)
        await eventually(lambda: len(list(node_a.node.peers or ())) == 1)


class TestBounds:
    async def test_one_dial_for_everybody(self, two: Two) -> None:
        node_a, node_b = two
        sessions = await asyncio.gather(*(ask(node_a, hop(node_b)) for _ in range(20)))
        assert len(set(sessions)) == 1
        assert len(node_b.node.callers) == 1

    async def test_too_many_waiters_are_refused(self, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "WAITERS", 2)
        node_a, node_b = two
        answers = await asyncio.gather(*(ask(node_a, hop(node_b)) for _ in range(3)))
        refused = [answer for answer in answers if isinstance(answer, Problem)]
        assert [(answer.status, answer.code) for answer in refused] == [(503, "busy")]

    async def test_unused_session_is_given_up(self, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
        node_a, node_b = two
        session = await ask(node_a, hop(node_b))
        assert node_a.node.peers is not None
        node_a.node.peers.tidy()
        assert isinstance(session, Mux)
        assert not session.closed
        monkeypatch.setattr(module, "KEPT_WARM", 0.0)
        node_a.node.peers.tidy()
        assert session.closed
        await eventually(lambda: len(node_b.node.callers) == 0)
        assert isinstance(await ask(node_a, hop(node_b)), Mux)

    async def test_peer_may_open_no_streams_back(self, two: Two) -> None:
        node_a, node_b = two
        await ask(node_a, hop(node_b))
        (caller,) = node_b.node.callers
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        caller.mux.open(ConnectRequest("127.0.0.1", 80), answer.set_result, 5.0)
        node_b.engine.settle()
        assert await asyncio.wait_for(answer, 10) == module.FOREIGN
