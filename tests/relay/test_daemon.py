"""A node's life: what keeps it from starting, what ends it, what it leaves (P3, P4, P11, R10, R18)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from nodes.models import AgentConnection, Heartbeat, ServerNode
from nodes.services.authorisation import authorisation_touch
from relay.node import heartbeat
from relay.registry import Registry
from tests.support.cluster import Cluster, Fickle, eventually
from tests.support.fleet import register
from tests.support.target import EchoTarget
from tests.support.user import ask, connected
from tunnelmesh.common.errors import DomainError, ExitCode, NotFound, Refused
from tunnelmesh.conf.address import Address
from tunnelmesh.conf.schema import RelaySection, ServerConfig
from tunnelmesh.conf.secretref import SecretRef


def epoch(node_id: str) -> int | None:
    record = ServerNode.objects.filter(id=node_id).first()
    return record.epoch if record else None


def lease_ends(agent_id: str) -> list[str]:
    return [row.close_reason for row in AgentConnection.objects.filter(agent_id=agent_id) if row.closed_at]


def change_record(node_id: str, **changes: Any) -> None:
    """As an administrator does."""
    with transaction.atomic():
        ServerNode.objects.filter(id=node_id).update(**changes)
        authorisation_touch()


Change = Callable[[RelaySection], RelaySection]


def with_relay(config: ServerConfig, change: Change) -> ServerConfig:
    return replace(config, server=replace(config.server, relay=change(config.server.relay)))


class TestCannotStart:
    """The reason is named, and the database has heard nothing: an older process with this id goes on."""

    @pytest.mark.parametrize(
        ("change", "error", "says"),
        [
            (lambda relay: replace(relay, ca=None), Refused, "server.relay.ca is not given"),
            (lambda relay: replace(relay, node_token=None), Refused, "server.relay.node_token"),
            (lambda relay: replace(relay, listen=Address("0.0.0.0", 9443)), Refused, "server.relay.endpoint"),
            (lambda relay: replace(relay, key=relay.ca), Refused, "certificate"),
            (lambda relay: replace(relay, cert=relay.ca), Refused, "certificate"),
            (lambda relay: replace(relay, node_token=SecretRef.parse("env:NOT_SET")), NotFound, "NOT_SET is not set"),
        ],
    )
    async def test_incomplete_relay(
        self, cluster: Cluster, change: Change, error: type[DomainError], says: str
    ) -> None:
        config = with_relay(await cluster.config("node-a"), change)
        with pytest.raises(error, match=says):
            await cluster.start_node("node-a", config=config)
        assert await cluster.do(epoch, "node-a") is None

    async def test_certificate_of_another_node(self, cluster: Cluster) -> None:
        config = await cluster.config("node-b")
        with pytest.raises(Refused, match="must be this node's id, node-a; found the DNS names: node-b"):
            await cluster.start_node("node-a", config=config)
        assert await cluster.do(epoch, "node-a") is None

    async def test_port_that_is_taken_leaves_the_older_process_alone(self, cluster: Cluster) -> None:
        first = await cluster.start_node("node-a")
        with pytest.raises(DomainError, match=f"cannot listen on 127.0.0.1:{first.relay_port}: Address already in use"):
            await cluster.start_node("node-a", config=first.config)
        assert await cluster.do(epoch, "node-a") == 1
        assert not first.task.done()

    async def test_no_database(self, cluster: Cluster) -> None:
        class Away(Registry):
            def register_node(self, *args: Any, **kwargs: Any) -> Any:
                raise DomainError("database_unavailable", "the database cannot be used")

        with pytest.raises(DomainError, match="cannot be used"):
            await cluster.start_node("node-a", registry=Away())


class TestRegistration:
    async def test_restart_touches_only_its_own_columns(self, cluster: Cluster) -> None:
        """R18: what an administrator has set stays."""
        node = await cluster.start_node("node-a")
        await node.end()
        await cluster.do(change_record, "node-a", name="Cellar", enabled=False)
        again = await cluster.start_node("node-a", config=node.config)
        record = await cluster.do(ServerNode.objects.get, id="node-a")
        assert (record.name, record.enabled, record.epoch) == ("Cellar", False, 2)
        assert record.address == str(node.config.server.relay.listen)
        assert record.certificate_not_after is not None
        assert again.node.readiness()["standing"] == "this node is disabled"

    async def test_local_mode_needs_no_relay(self, cluster: Cluster) -> None:
        config = replace(with_relay(await cluster.config("local"), lambda _: RelaySection()), mode="local")
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="local")
            node = await cluster.start_node("local", config=config)
            await cluster.start_agent("agent-1", node)
            assert await ask(entry) == b"hello"
        assert node.node.peers is None


class TestStanding:
    async def test_older_process_is_fenced_and_ends_with_its_own_code(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        agent = await cluster.start_agent("agent-1", node)
        await cluster.do(register, "node-a")
        assert await asyncio.wait_for(node.task, 5) == ExitCode.IDENTITY_CONFLICT
        assert agent.sessions == 0
        assert await cluster.do(lease_ends, "agent-1") == ["fenced"]

    async def test_disabled_node_ends_what_is_open_and_serves_again_when_enabled(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node = await cluster.start_node("node-a")
            await cluster.start_agent("agent-1", node)
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                await cluster.do(change_record, "node-a", enabled=False)
                with pytest.raises(ConnectionResetError):
                    await user.receive(1)
            with pytest.raises(ConnectionRefusedError):
                await ask(entry)
            assert not node.task.done()
            await cluster.eventually(lambda: lease_ends("agent-1") == ["node_disabled"])
            await cluster.do(change_record, "node-a", enabled=True)
            await eventually(lambda: len(node.node.entries) == 1 and len(node.node.agents) == 1)
            assert await ask(entry) == b"hello"


class TestOutage:
    """P12: without the database nobody new is admitted, what is open lives for the grace; all comes back by itself."""

    async def test_within_the_grace(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            registry = Fickle()
            node = await cluster.start_node("node-a", registry=registry)
            await cluster.start_agent("agent-1", node)
            registry.away = True
            await node.node.heartbeat.look()
            assert await ask(entry) == b"hello"
            stranger = await cluster.run_agent(await cluster.agent_config("agent-2", [node.agents_port]))
            await eventually(lambda: "503 unavailable" in stranger.why_down)
            registry.away = False
            await node.node.heartbeat.look()
            await stranger.connected()
            assert await ask(entry) == b"hello"

    async def test_end_in_good_order(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        registry = Fickle()
        node = await cluster.start_node("node-a", registry=registry)
        registry.away = True
        assert await node.end() == ExitCode.OK
        assert "the fleet is not told that this node drains" in caplog.text
        assert "leases are not given back" in caplog.text

    async def test_beyond_the_grace(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(heartbeat, "GRACE_SECONDS", 0.2)
        monkeypatch.setattr(heartbeat, "LOOK", 0.05)
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            registry = Fickle()
            node = await cluster.start_node("node-a", registry=registry)
            await cluster.start_agent("agent-1", node)
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                registry.away = True
                with pytest.raises(ConnectionResetError):
                    await user.receive(1)
            with pytest.raises(ConnectionRefusedError):
                await ask(entry)
            registry.away = False
            await eventually(lambda: len(node.node.entries) == 1 and len(node.node.agents) == 1)
            assert await ask(entry) == b"hello"
            await cluster.eventually(lambda: lease_ends("agent-1") == ["record_expired"])


class TestEnd:
    async def test_idle_node(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        agent = await cluster.start_agent("agent-1", node)
        assert await node.end() == ExitCode.OK
        assert await cluster.do(lease_ends, "agent-1") == ["normal"]
        await eventually(lambda: agent.sessions == 0)
        assert (await cluster.do(Heartbeat.objects.get, server_node_id="node-a")).draining

    async def test_open_streams_may_finish_and_new_ones_are_refused(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node_a, node_b = await cluster.start_node("node-a", drain=10.0), await cluster.start_node("node-b")
            await cluster.start_agent("agent-1", node_b)
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                node_a.stop.set()
                await eventually(lambda: node_a.node.stopping)
                with pytest.raises(ConnectionRefusedError):
                    await ask(entry)
                assert node_a.node.readiness()["standing"] == "this node is stopping"
                await user.send(b"again")
                user.finish()
                assert await user.rest() == b"again"
            assert await asyncio.wait_for(node_a.task, 5) == ExitCode.OK

    async def test_stuck_stream_is_reset_when_the_time_is_up(self, cluster: Cluster) -> None:
        async with EchoTarget() as target:
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            node = await cluster.start_node("node-a", drain=0.1)
            await cluster.start_agent("agent-1", node)
            async with connected(entry) as user:
                await user.send(b"hello")
                assert await user.receive(5) == b"hello"
                assert await node.end() == ExitCode.OK
                with pytest.raises(ConnectionResetError):
                    await user.receive(1)

    async def test_part_that_fails_ends_the_process(self, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
        class Broken(Registry):
            def authorisation_revision(self) -> int:
                raise ZeroDivisionError("planted")

        node = await cluster.start_node("node-a", registry=Broken())
        assert await asyncio.wait_for(node.task, 5) == ExitCode.FAILED
        assert "planted" in caplog.text

    async def test_silent_strangers_do_not_hold_it_up(self, cluster: Cluster) -> None:
        node = await cluster.start_node("node-a")
        with socket.create_connection(("127.0.0.1", node.agents_port)):
            await eventually(lambda: any("door" in task.get_name() for task in asyncio.all_tasks()))
            assert await node.end() == ExitCode.OK
