"""Entries follow the routes; what cannot be opened is said and tried again, and stops nobody else."""

from __future__ import annotations

import socket

import pytest

from relay.demo.ports import LOOPBACK
from relay.models import Route, Service
from relay.services.publishing import route_change, service_change
from tests.support.cluster import Cluster, Fickle
from tests.support.target import EchoTarget
from tests.support.user import ask, connected
from tunnelmesh.db.clock import database_now


def close_route() -> None:
    Route.objects.update(deleted_at=database_now())


async def test_route_that_comes_and_goes(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with EchoTarget() as target:
        node = await cluster.start_node("node-a")
        await cluster.start_agent("agent-1", node)
        entry = await cluster.publish("agent-1", target.port, node="node-a")
        await node.node.entries.follow()
        async with connected(entry) as user:
            await user.send(b"hello")
            assert await user.receive(5) == b"hello"
            await cluster.do(close_route)
            await node.node.entries.follow()
            with pytest.raises(ConnectionRefusedError):
                await ask(entry)
            await user.send(b"again")
            assert await user.receive(5) == b"again"
        assert len(node.node.entries) == 0
        assert caplog.text.count("its route is gone") == 1


async def test_without_a_database_they_stay_as_they_are(cluster: Cluster) -> None:
    async with EchoTarget() as target:
        entry = await cluster.publish("agent-1", target.port, node="node-a")
        registry = Fickle()
        node = await cluster.start_node("node-a", registry=registry)
        await cluster.start_agent("agent-1", node)
        registry.away = True
        await node.node.entries.follow()
        assert await ask(entry) == b"hello"


async def test_node_that_stops_while_it_reads_its_routes_opens_nothing(cluster: Cluster) -> None:
    node = await cluster.start_node("node-a")
    entry = await cluster.publish("agent-1", 80, node="node-a")
    node.node.stopping = True
    await node.node.entries.follow()
    with pytest.raises(ConnectionRefusedError):
        await ask(entry)


async def test_change_of_the_target(cluster: Cluster) -> None:
    async with EchoTarget() as old, EchoTarget() as new:
        entry = await cluster.publish("agent-1", old.port, node="node-a")
        node = await cluster.start_node("node-a")
        await cluster.start_agent("agent-1", node)
        assert await ask(entry) == b"hello"
        await cluster.do(lambda: service_change(Service.objects.get(), actor="test", port=new.port))
        await node.node.entries.follow()
        assert await ask(entry) == b"hello"
        assert (old.connections, new.connections) == (1, 1)


async def test_port_that_is_taken(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    async with EchoTarget() as target:
        other = await cluster.publish("agent-1", target.port, node="node-a", name="other")
        with socket.socket() as taken:
            taken.bind((LOOPBACK, 0))
            taken.listen()
            entry = await cluster.publish("agent-1", target.port, node="node-a")
            port = taken.getsockname()[1]
            await cluster.do(lambda: route_change(Route.objects.get(port=entry), actor="test", port=port))
            node = await cluster.start_node("node-a")
            await cluster.start_agent("agent-1", node)
            assert await ask(other) == b"hello"
            why = f"web on {LOOPBACK}:{port}: cannot listen on {LOOPBACK}:{port}: Address already in use"
            assert node.node.readiness()["entries"] == why
            await node.node.entries.follow()
            assert caplog.text.count("cannot listen") == 1
        await node.node.entries.follow()
        assert node.node.readiness()["entries"] is None
        assert await ask(port) == b"hello"


async def test_target_that_no_head_can_name(cluster: Cluster) -> None:
    entry = await cluster.publish("agent-1", 80, node="node-a")
    await cluster.do(lambda: Service.objects.update(host="bad host"))
    node = await cluster.start_node("node-a")
    assert node.node.entries.errors == {
        f"web on {LOOPBACK}:{entry}": "target 'bad host:80': the target is not host:port"
    }
