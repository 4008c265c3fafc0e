"""An agent's life: whom it believes, what it reaches, how it comes back (D16, R2, R4, P11)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from nodes.models import AgentConnection
from relay import agent as module
from relay.agent import Agent
from relay.demo.pki import Authority, Pair
from relay.demo.ports import free_ports
from relay.protocol.errors import GoAwayCode
from tests.support.cluster import Cluster, RunningAgent, eventually
from tests.support.proxy import Proxy
from tests.support.target import EchoTarget
from tests.support.user import ask, connected
from tunnelmesh.common.errors import ExitCode, Invalid, NotFound, Refused
from tunnelmesh.conf.secretref import SecretRef

WRONG_PIN = "sha256:" + "0" * 64


def pin_of(cluster: Cluster, node_id: str) -> str:
    return Pair.read(cluster.folder, f"{node_id}-agents").pin


def other_ca(folder: Path) -> Path:
    Authority.new("fleet").pair.write(folder, "other")
    return folder / "other.pem"


async def refusal(running: RunningAgent) -> str:
    """Why the agent's first dial has failed."""
    await eventually(lambda: running.agent.links and running.agent.links[0].link.down)
    return str(running.agent.links[0].link.down)


class TestWhomItBelieves:
    async def test_pin_alone(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        await cluster.start_agent("agent-1", node, ca=None, pins=(WRONG_PIN, pin_of(cluster, "node-a")))

    async def test_ca_alone(self, cluster: Cluster) -> None:
        await cluster.start_agent("agent-1", await cluster.start_node("node-a"))

    async def test_both(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        await cluster.start_agent("agent-1", node, pins=(pin_of(cluster, "node-a"),))

    async def test_wrong_pin_whatever_the_ca_says(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        for ca in (None, cluster.folder / "ca.pem"):
            config = await cluster.agent_config("agent-1", [node.agents_port], ca=ca, pins=(WRONG_PIN,))
            running = await cluster.run_agent(config)
            assert f"has the pin {pin_of(cluster, 'node-a')}, which is not among pins" in await refusal(running)
        assert len(node.node.agents) == 0

    async def test_wrong_ca_whatever_the_pin_says(self, cluster: Cluster, tmp_path: Path) -> None:
        node = await cluster.start_node("node-a")
        for pins in ((), (pin_of(cluster, "node-a"),)):
            config = await cluster.agent_config("agent-1", [node.agents_port], ca=other_ca(tmp_path), pins=pins)
            assert "verify: the server's certificate" in await refusal(await cluster.run_agent(config))
        assert len(node.node.agents) == 0

    async def test_name_in_the_certificate(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        await cluster.start_agent("agent-1", node, server_name="agents.example")
        config = await cluster.agent_config("agent-2", [node.agents_port], server_name="other.example")
        assert "verify: the server's certificate: Hostname mismatch" in await refusal(await cluster.run_agent(config))


class TestCannotStart:
    async def test_nobody_to_believe(self, cluster: Cluster) -> None:
        config = await cluster.agent_config("agent-1", [1], ca=None)
        with pytest.raises(Refused, match="neither pins nor ca is given"):
            Agent(config)

    async def test_ca_file_that_is_none(self, cluster: Cluster) -> None:
        config = await cluster.agent_config("agent-1", [1], ca=cluster.folder / "missing.pem")
        with pytest.raises(Refused, match=r"CA bundle .*missing\.pem"):
            Agent(config)

    async def test_bad_allow_rule(self, cluster: Cluster) -> None:
        config = await cluster.agent_config("agent-1", [1], allow=("10.0.0.0/8",))
        with pytest.raises(Invalid, match="no port"):
            Agent(config)

    async def test_no_token(self, cluster: Cluster) -> None:
        config = await cluster.agent_config("agent-1", [1], token=SecretRef.parse("file:/nowhere/token"))
        with pytest.raises(NotFound, match="cannot be read"):
            Agent(config)

    async def test_empty_allow_list_is_said(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        Agent(await cluster.agent_config("agent-1", [1], allow=()))
        assert "allow is empty: this agent will refuse every stream" in caplog.text


class TestTargets:
    async def test_refusal_of_a_target_is_named_once(
        self, cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "REMEMBERED", 1)
        caplog.set_level(logging.INFO)
        entry = await cluster.publish("agent-1", 80, node="node-a")
        other = await cluster.publish("agent-1", 81, node="node-a", name="other")
        await cluster.start_agent("agent-1", await cluster.start_node("node-a"), allow=())
        for port in (entry, entry, other):
            with pytest.raises(ConnectionResetError):
                await ask(port)
        assert caplog.text.count("a stream is refused") == 1

    async def test_more_dials_than_it_does_at_once(
        self, cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "PENDING_DIALS", 0)
        entry = await cluster.publish("agent-1", 80, node="node-a")
        await cluster.start_agent("agent-1", await cluster.start_node("node-a"))
        with pytest.raises(ConnectionResetError):
            await ask(entry)
        assert "busy: 0 dials are under way already" in caplog.text


class TestReturn:
    async def test_cut_wire(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        async with Proxy(node.agents_port) as proxy:
            running = await cluster.run_agent(await cluster.agent_config("agent-1", [proxy.port]))
            await running.connected()
            proxy.cut()
            await eventually(lambda: proxy.accepted >= 2)
            await running.connected()
            await eventually(lambda: len(node.node.agents) == 1)
            await running.end()

    async def test_silent_wire_is_replaced_within_a_second(self, cluster: Cluster) -> None:
        """R2: connect, freeze, connect again with the same identity; one live session, the frozen one is closed."""
        node = await cluster.start_node("node-a")
        async with Proxy(node.agents_port) as proxy:
            frozen = await cluster.run_agent(await cluster.agent_config("agent-1", [proxy.port]))
            await frozen.connected()
            (stale,) = node.node.agents
            proxy.silence()
            await cluster.start_agent("agent-1", node)
            assert stale.mux.closed
            assert [each.lease.generation for each in node.node.agents] == [2]
            proxy.resume()
            await frozen.end()

    async def test_silence_is_noticed_by_both_sides(self, cluster: Cluster) -> None:
        """R1, with a quicker keepalive: neither side hears that the wire is dead."""
        quick = {"keepalive": 2.0, "keepalive_answer": 2.0}
        node = await cluster.start_node("node-a", **quick)
        cluster.agent_limits |= quick
        async with Proxy(node.agents_port) as proxy:
            running = await cluster.run_agent(await cluster.agent_config("agent-1", [proxy.port]))
            await running.connected()
            proxy.silence()
            await cluster.eventually(lambda: AgentConnection.objects.filter(close_reason="keepalive").exists())
            await eventually(lambda: "nothing received" in str(running.agent.links[0].link.down))
            assert len(node.node.agents) == 0
            await running.end()

    async def test_two_processes_with_one_identity_do_not_fight(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        first = await cluster.start_agent("agent-1", node)
        second = await cluster.start_agent("agent-1", node)
        await eventually(lambda: first.sessions == 0)
        assert str(first.agent.links[0].link.down) == "the peer closed the session: superseded"
        await asyncio.sleep(0.3)  # a fight would be under way by now: the pause after an ordinary end is at most 0.1 s
        assert (first.sessions, second.sessions) == (0, 1)

    async def test_drained_session_finishes_its_streams_while_a_new_one_is_dialled(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node = await cluster.start_node("node-a")
            running = await cluster.start_agent("agent-1", node)
            (old,) = node.node.agents
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                draining = asyncio.ensure_future(old.mux.drain(10))
                await eventually(lambda: len(node.node.agents) == 2)
                await running.connected()
                assert await ask(entry, b"new") == b"new"
                await user.send(b"again")
                user.finish()
                assert await user.rest() == b"again"
            await draining
            await eventually(lambda: [each.lease.generation for each in node.node.agents] == [2])

    async def test_revoked_token_takes_the_slow_lane_and_says_so_once(
        self, cluster: Cluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        node = await cluster.start_node("node-a")
        config = await cluster.agent_config("agent-1", [node.agents_port])
        (cluster.folder / "agent-1").write_text("tma_" + "x" * 49)
        running = await cluster.run_agent(config)
        assert "refused with 401 unauthenticated" in await refusal(running)
        assert [60 <= pause <= 300 for pause in pauses(caplog)] == [True]

    async def test_token_that_was_replaced_serves_at_the_next_dial(self, cluster: Cluster) -> None:
        """C11: read before every dial."""
        node = await cluster.start_node("node-a")
        running = await cluster.start_agent("agent-1", node)
        file = cluster.folder / "agent-1"
        kept = file.read_text()
        file.unlink()
        (session,) = node.node.agents
        session.mux.close(GoAwayCode.INTERNAL_ERROR, "by the test")
        link = running.agent.links[0].link
        await eventually(lambda: "this agent's token" in str(link.down))
        file.write_text(kept)
        await running.connected()

    async def test_servers_one_after_the_other(self, cluster: Cluster) -> None:
        """One server that is away does not keep the agent from the others."""
        node = await cluster.start_node("node-a")
        config = await cluster.agent_config("agent-1", [*free_ports(1), node.agents_port])
        running = await cluster.run_agent(config)
        await running.connected(1)
        assert "connect:" in str(running.agent.links[0].link.down)

    async def test_two_servers_that_are_one_node(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        node = await cluster.start_node("node-a")
        async with Proxy(node.agents_port) as proxy:
            running = await cluster.run_agent(await cluster.agent_config("agent-1", [node.agents_port, proxy.port]))
            await eventually(lambda: "or do two servers lead to one node?" in caplog.text)
            await running.end()


def pauses(caplog: pytest.LogCaptureFixture) -> list[float]:
    """The announced pauses, in seconds."""
    lines = [record.getMessage() for record in caplog.records if "next try in" in record.getMessage()]
    return [float(line.rsplit("next try in ", 1)[1].split()[0]) for line in lines]


class TestEnd:
    async def test_open_streams_may_finish(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            running = await cluster.start_agent("agent-1", await cluster.start_node("node-a"))
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                running.stop.set()
                await eventually(lambda: running.sessions == 0)
                await user.send(b"again")
                user.finish()
                assert await user.rest() == b"again"
            assert await asyncio.wait_for(running.task, 5) == ExitCode.OK

    async def test_stuck_stream_is_reset_when_the_time_is_up(self, cluster: Cluster) -> None:
        cluster.agent_limits["drain"] = 0.1
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            running = await cluster.start_agent("agent-1", await cluster.start_node("node-a"))
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                assert await running.end() == ExitCode.OK
                with pytest.raises(ConnectionResetError):
                    await user.receive(1)

    async def test_while_it_dials(self, cluster: Cluster) -> None:
        async with Proxy(1) as proxy:
            proxy.silence()
            running = await cluster.run_agent(await cluster.agent_config("agent-1", [proxy.port]))
            await eventually(lambda: proxy.accepted > 0)
            assert await running.end() == ExitCode.OK
