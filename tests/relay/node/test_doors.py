"""What callers at the two doors hear; the checks themselves are in test_gate.py and test_registry.py."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from nodes.models import AgentConnection, ServerNode
from relay.gate import Admitted, NodeClaim, Refusal
from relay.registry import Registry
from tests.support.caller import at_door, client_context, head, say
from tests.support.cluster import Cluster, RunningNode, eventually
from tokens.principal import AgentPrincipal
from tokens.scope import AgentScope, Fleet
from tunnelmesh.common.errors import DomainError


async def token(cluster: Cluster, name: str, scope: Fleet | AgentScope) -> str:
    return (await cluster.secret(name, scope)).resolve().reveal()


def leases(agent_id: str) -> list[tuple[bool, str]]:
    """The agent's leases, oldest first: still open, why closed."""
    rows = AgentConnection.objects.filter(agent_id=agent_id).order_by("generation")
    return [(row.closed_at is None, row.close_reason) for row in rows]


class TestAgentDoor:
    async def test_stranger_is_told_nothing(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        node = await cluster.start_node("node-a")
        said = [
            head("/agent", agent="agent-1"),
            head("/agent", agent="agent-1", token="tma_" + "x" * 49),
            head("/agent", agent="agent-1", token=await token(cluster, "node-token", Fleet())),
        ]
        answers = [await say(node.agents_port, request, client_context()) for request in said]
        assert [(status, problem["code"]) for status, problem in answers] == [(401, "unauthenticated")] * 3
        assert len({problem["detail"] for _, problem in answers}) == 1
        assert "tma_x" not in caplog.text
        assert node.node.agents.loads() == []

    async def test_token_of_another_agent(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        theirs = await token(cluster, "agent-2", AgentScope("agent-2"))
        request = head("/agent", agent="agent-1", token=theirs)
        status, problem = await say(node.agents_port, request, client_context())
        assert (status, problem["code"]) == (403, "forbidden")

    @pytest.mark.parametrize(
        "request_head",
        [
            b"GET / HTTP/1.1\r\n\r\n",
            head("/relay", node="node-b", epoch="1"),
            b"\x00\x01\r\n\r\n",
            head("/agent", agent="a" * 10_000),
            head("/agent", agent="Agent-1"),
        ],
    )
    async def test_what_is_no_request_for_this_door(self, cluster: Cluster, request_head: bytes) -> None:
        node = await cluster.start_node("node-a")
        status, problem = await say(node.agents_port, request_head, client_context())
        assert (status, problem["code"]) == (400, "bad_request")

    async def test_welcome_names_the_node_and_its_epoch(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        request = head("/agent", agent="agent-1", token=await token(cluster, "agent-1", AgentScope("agent-1")))
        async with at_door(node.agents_port, client_context()) as (reader, writer):
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 101 ")
            assert b"TunnelMesh-Node: node-a\r\nTunnelMesh-Epoch: 1\r\n" in answer
            assert await cluster.do(leases, "agent-1") == [(True, "")]
        await eventually(lambda: len(node.node.agents) == 0)
        await node.end()
        assert await cluster.do(leases, "agent-1") == [(False, "lost")]

    async def test_second_session_supersedes_the_first_at_once(self, cluster: Cluster) -> None:
        """R2: however stale the first one is, it does not keep the agent out."""
        node = await cluster.start_node("node-a")
        request = head("/agent", agent="agent-1", token=await token(cluster, "agent-1", AgentScope("agent-1")))
        async with at_door(node.agents_port, client_context()) as (first, frozen):
            frozen.write(request)
            await first.readuntil(b"\r\n\r\n")
            async with at_door(node.agents_port, client_context()) as (second, writer):
                writer.write(request)
                assert (await second.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
                async with asyncio.timeout(10):
                    farewell = await first.read()
                assert farewell.endswith(bytes.fromhex("000300000000 0000 746d0008"))
                assert await cluster.do(leases, "agent-1") == [(False, "superseded"), (True, "")]
                assert len(node.node.agents) == 1

    async def test_caller_who_leaves_while_he_is_judged_gets_no_lease(
        self, cluster: Cluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its generation would be newer than that of the session he has meanwhile, and throw that one out."""
        caplog.set_level("INFO")
        judging, judged = threading.Event(), threading.Event()

        class Slow(Registry):
            def authenticate_agent(self, *args: Any, **kwargs: Any) -> AgentPrincipal | Refusal:
                judging.set()
                assert judged.wait(10)
                return super().authenticate_agent(*args, **kwargs)

        node = await cluster.start_node("node-a", registry=Slow())
        request = head("/agent", agent="agent-1", token=await token(cluster, "agent-1", AgentScope("agent-1")))
        async with at_door(node.agents_port, client_context()) as (_, writer):
            writer.write(request)
            await asyncio.to_thread(judging.wait, 10)
        judged.set()
        await eventually(lambda: "left before the answer" in caplog.text)
        await node.end()
        assert await cluster.do(leases, "agent-1") == []


class Away(Registry):
    """A registry whose database goes away for those who want to be admitted."""

    def admit_node(self, claim: NodeClaim, *, has_capacity: bool = True) -> Admitted | Refusal:
        raise DomainError("too_slow", "no answer")

    def authenticate_agent(self, *args: Any, **kwargs: Any) -> AgentPrincipal | Refusal:
        raise DomainError("too_slow", "no answer")


async def test_unknown_facts_admit_nobody_and_refuse_nobody_for_good(cluster: Cluster, tmp_path: Path) -> None:
    node = await cluster.start_node("node-a", registry=Away())
    await cluster.config("node-b")
    for port, request, context in (
        (node.agents_port, head("/agent", agent="agent-1", token="t"), client_context()),
        (node.relay_port, head("/relay", node="node-b", epoch="1", token="t"), client_context(tmp_path, "node-b")),
    ):
        status, problem = await say(port, request, context)
        assert (status, problem["code"]) == (503, "unavailable")


class TestNodeDoor:
    async def test_unregistered_node(self, cluster: Cluster, tmp_path: Path) -> None:
        node = await cluster.start_node("node-a")
        await cluster.config("node-b")
        fleet = await token(cluster, "node-token", Fleet())
        request = head("/relay", node="node-b", epoch="1", token=fleet)
        status, problem = await say(node.relay_port, request, client_context(tmp_path, "node-b"))
        assert (status, problem["code"]) == (401, "unauthenticated")

    async def test_older_process_of_a_node(self, cluster: Cluster, tmp_path: Path) -> None:
        node = await cluster.start_node("node-a")
        await (await cluster.start_node("node-b")).end()
        fleet = await token(cluster, "node-token", Fleet())
        request = head("/relay", node="node-b", epoch="0", token=fleet)
        status, problem = await say(node.relay_port, request, client_context(tmp_path, "node-b"))
        assert (status, problem["code"]) == (412, "stale")

    async def test_streams_without_an_agent(self, cluster: Cluster, tmp_path: Path) -> None:
        node = await cluster.start_node("node-a")
        await cluster.start_node("node-b")
        fleet = await token(cluster, "node-token", Fleet())
        async with at_door(node.relay_port, client_context(tmp_path, "node-b")) as (reader, writer):
            writer.write(head("/relay", node="node-b", epoch="1", token=fleet))
            await reader.readuntil(b"\r\n\r\n")
            connect = b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"
            writer.write(bytes.fromhex("0000 0001 00000001") + len(connect).to_bytes(4, "big") + connect)
            async with asyncio.timeout(10):
                await reader.readuntil(b"HTTP/1.1 400 ")


async def set_enabled(cluster: Cluster, node_id: str, enabled: bool) -> None:
    await cluster.do(ServerNode.objects.filter(id=node_id).update, enabled=enabled)


async def test_suspended_node_lets_nobody_in(cluster: Cluster) -> None:
    node: RunningNode = await cluster.start_node("node-a")
    await set_enabled(cluster, "node-a", False)
    await node.node.heartbeat.beat()
    request = head("/agent", agent="agent-1", token=await token(cluster, "agent-1", AgentScope("agent-1")))
    status, problem = await say(node.agents_port, request, client_context())
    assert (status, problem["code"]) == (503, "unavailable")
