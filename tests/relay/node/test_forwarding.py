"""A user's bytes through the fleet: local first, then the node that holds the agent; elsewhere only when it is safe."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from relay.demo.ports import LOOPBACK, free_ports
from relay.protocol.errors import GoAwayCode
from relay.registry import Registry
from relay.router import LeaseInfo
from tests.support.cluster import Cluster, eventually
from tests.support.target import EchoTarget
from tests.support.user import ask, connected

SAID = bytes(range(256)) * 4096


class Misled(Registry):
    """A registry that also knows leases that are none, and names them first."""

    def __init__(self, *leases: LeaseInfo) -> None:
        self.leases = [replace(lease, active_streams=-1) for lease in leases]

    def live_leases(self, agent_id: str) -> list[LeaseInfo]:
        return [*self.leases, *super().live_leases(agent_id)]


@contextmanager
def deaf_target() -> Iterator[int]:
    """A port on which a connect neither succeeds nor fails: its backlog is full."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind((LOOPBACK, 0))
        listening.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@pytest.mark.parametrize("entry_on", ["node-a", "node-b"])
async def test_bytes_reach_the_agent_from_either_node(cluster: Cluster, entry_on: str) -> None:
    async with EchoTarget() as target:
        entry = await cluster.publish("agent-1", target.port, node=entry_on)
        node_a = await cluster.start_node("node-a")
        node_b = await cluster.start_node("node-b")
        await cluster.start_agent("agent-1", node_b)
        assert await ask(entry, SAID) == SAID
        assert len(node_b.node.callers) == (entry_on == "node-a")
        assert len(node_a.node.callers) == 0


async def test_local_session_goes_first(cluster: Cluster) -> None:
    async with EchoTarget() as target:
        entry = await cluster.publish("agent-1", target.port, node="node-a")
        node_a, node_b = await cluster.start_node("node-a"), await cluster.start_node("node-b")
        await cluster.start_agent("agent-1", node_b, node_a)
        assert await ask(entry) == b"hello"
        assert len(node_b.node.callers) == 0


async def test_many_streams_at_once_dial_the_peer_once(cluster: Cluster) -> None:
    async with EchoTarget() as target:
        entry = await cluster.publish("agent-1", target.port, node="node-a")
        await cluster.start_node("node-a")
        node_b = await cluster.start_node("node-b")
        await cluster.start_agent("agent-1", node_b)
        answers = await asyncio.gather(*(ask(entry, str(number).encode()) for number in range(50)))
        assert answers == [str(number).encode() for number in range(50)]
        assert len(node_b.node.callers) == 1


class TestAnotherWay:
    """R8: only when the stream surely did not reach the agent."""

    async def test_node_that_does_not_hold_the_agent_says_so(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node_b, node_c = await cluster.start_node("node-b"), await cluster.start_node("node-c")
            wrong = LeaseInfo("agent-1", "none", "node-b", 1, 9, str(node_b.config.server.relay.listen), 0)
            await cluster.start_node("node-a", registry=Misled(wrong))
            await cluster.start_agent("agent-1", node_c)
            assert await ask(entry) == b"hello"
            assert len(node_b.node.callers) == 1
            assert target.connections == 1

    async def test_node_that_cannot_be_dialled(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node_c = await cluster.start_node("node-c")
            wrong = LeaseInfo("agent-1", "none", "node-x", 1, 9, f"{LOOPBACK}:{free_ports(1)[0]}", 0)
            node_a = await cluster.start_node("node-a", registry=Misled(wrong))
            await cluster.start_agent("agent-1", node_c)
            assert await ask(entry) == b"hello"
            assert node_a.node.peers is not None
            assert node_a.node.peers.unreachable() == ["node-x"]

    async def test_node_at_an_older_epoch(self, cluster: Cluster) -> None:
        """The session is up to the newer process; the stale lease fails at once and without a dial."""
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node_b = await cluster.start_node("node-b")
            stale = LeaseInfo("agent-1", "none", "node-b", 0, 9, str(node_b.config.server.relay.listen), 0)
            await cluster.start_node("node-a", registry=Misled(stale))
            await cluster.start_agent("agent-1", node_b)
            assert await ask(entry) == b"hello"
            assert await ask(entry) == b"hello"

    async def test_not_after_the_stream_may_have_reached_the_agent(self, cluster: Cluster) -> None:
        with deaf_target() as port:
            entry = await cluster.publish("agent-1", port, node="node-a")
            node_b, node_c = await cluster.start_node("node-b"), await cluster.start_node("node-c")
            first = LeaseInfo("agent-1", "none", "node-b", 1, 9, str(node_b.config.server.relay.listen), 0)
            await cluster.start_node("node-a", registry=Misled(first))
            await cluster.start_agent("agent-1", node_b, node_c)
            async with connected(entry) as user:
                await eventually(lambda: any(each.mux.active for each in node_b.node.agents))
                for caller in node_b.node.callers:
                    caller.mux.close(GoAwayCode.INTERNAL_ERROR, "dropped by the test")
                with pytest.raises(ConnectionResetError):
                    await user.receive(1)
            assert len(node_c.node.callers) == 0

    async def test_not_after_the_first_byte(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            await cluster.start_node("node-a")
            node_b = await cluster.start_node("node-b")
            await cluster.start_agent("agent-1", node_b)
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                for caller in node_b.node.callers:
                    caller.mux.close(GoAwayCode.INTERNAL_ERROR, "dropped by the test")
                with pytest.raises(ConnectionResetError):
                    await user.receive(1)
            assert target.connections == 1


class TestFullSession:
    """lessons.md: as `busy`, where the other side of the session would only reset the stream."""

    async def test_session_to_the_peer(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            await cluster.start_node("node-a", max_streams=1)
            await cluster.start_agent("agent-1", await cluster.start_node("node-b"))
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                with pytest.raises(ConnectionResetError):
                    await ask(entry)
            assert "busy: the session has 1 streams" in caplog.text

    async def test_agent_held_by_the_peer(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            local = await cluster.publish("agent-1", target.port, node="node-b", name="local")
            await cluster.start_node("node-a")
            await cluster.start_agent("agent-1", await cluster.start_node("node-b", max_streams=1))
            async with connected(local) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                with pytest.raises(ConnectionResetError):
                    await ask(entry)
            assert "entry web refuses 127.0.0.1: busy: the session has 1 streams" in caplog.text

    async def test_agent_held_here(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            await cluster.start_agent("agent-1", await cluster.start_node("node-a", max_streams=1))
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                with pytest.raises(ConnectionResetError):
                    await ask(entry)
            assert "busy: the session has 1 streams" in caplog.text


class TestNodeThatStops:
    async def test_opens_no_stream(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        """An entry that is still open, as in the turn of the loop in which a process wakes up (R14)."""
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node = await cluster.start_node("node-a")
            await cluster.start_agent("agent-1", node)
            node.node.stopping = True
            with pytest.raises(ConnectionResetError):
                await ask(entry)
            assert "agent_unavailable: this node is stopping" in caplog.text

    async def test_relays_no_stream_and_the_caller_may_try_elsewhere(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            await cluster.start_node("node-a")
            node_b, node_c = await cluster.start_node("node-b"), await cluster.start_node("node-c")
            await cluster.start_agent("agent-1", node_b, node_c)
            node_b.node.stopping = True
            assert await ask(entry) == b"hello"
            assert len(node_c.node.callers) == 1


class TestNoWay:
    async def test_agent_that_is_nowhere(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        entry = await cluster.publish("agent-1", 1, node="node-a")
        await cluster.start_node("node-a")
        for _ in range(3):
            with pytest.raises(ConnectionResetError):
                await ask(entry)
        refusals = [record.levelname for record in caplog.records if "refuses" in record.message]
        assert refusals == ["WARNING"]
        assert "agent_unavailable: agent agent-1 holds no live connection to any node" in caplog.text

    async def test_agent_that_comes_is_found_by_the_next_stream(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            await cluster.start_node("node-a")
            node_b = await cluster.start_node("node-b")
            with pytest.raises(ConnectionResetError):
                await ask(entry)
            await cluster.start_agent("agent-1", node_b)
            assert await ask(entry) == b"hello"

    async def test_target_that_refuses(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        entry = await cluster.publish("agent-1", free_ports(1)[0], node="node-a")
        await cluster.start_node("node-a")
        await cluster.start_agent("agent-1", await cluster.start_node("node-b"))
        with pytest.raises(ConnectionResetError):
            await ask(entry)
        assert "unreachable: 127.0.0.1" in caplog.text

    async def test_target_that_the_agent_does_not_allow(
        self, cluster: Cluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            await cluster.start_agent("agent-1", await cluster.start_node("node-a"), allow=("10.0.0.1:80",))
            with pytest.raises(ConnectionResetError):
                await ask(entry)
            assert target.connections == 0
            assert "forbidden: this agent does not allow" in caplog.text
