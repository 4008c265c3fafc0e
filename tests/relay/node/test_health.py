"""The local admin endpoint: what it answers, and what it costs to ask (lessons: never 200 while nothing works)."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from relay.demo.ports import LOOPBACK
from relay.metrics import Metrics
from relay.net.acceptor import bind
from relay.node import health as module
from relay.node.health import HealthEndpoint
from tests.support.cluster import Cluster
from tests.support.user import connected


class Endpoint:
    """One that is asked; `parts` is what the parts say of themselves."""

    def __init__(self) -> None:
        self.parts: dict[str, str | None] = {"entries": None}
        self.metrics = Metrics()
        self.served = HealthEndpoint(
            readiness=lambda: self.parts, facts=lambda: {"node": "node-a"}, metrics=self.metrics
        )
        self.sockets: list[socket.socket] = bind(LOOPBACK, 0)
        self.port = self.sockets[0].getsockname()[1]

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        async with connected(self.port) as client:
            await client.send(request)
            head, _, body = (await client.rest()).partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        assert int(fields["Content-Length"]) == len(body)
        return int(first.split()[1]), fields, body

    async def get(self, path: str) -> tuple[int, Any]:
        status, fields, body = await self.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return status, json.loads(body) if fields["Content-Type"] == "application/json" else body


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    await made.served.start(made.sockets)
    yield made
    await made.served.close()


async def test_live(endpoint: Endpoint) -> None:
    assert await endpoint.get("/health/live") == (200, {"live": True})


async def test_ready_names_what_is_not(endpoint: Endpoint) -> None:
    assert await endpoint.get("/health/ready") == (
        200,
        {"ready": True, "node": "node-a", "checks": {"entries": "ok"}},
    )
    endpoint.parts["entries"] = "web: port taken"
    status, answer = await endpoint.get("/health/ready?verbose")
    assert (status, answer["ready"], answer["checks"]) == (503, False, {"entries": "web: port taken"})


async def test_metrics_are_read_when_they_are_asked_for(endpoint: Endpoint) -> None:
    values = [1.0, 2.0]
    endpoint.metrics.watch("agent_sessions", "Sessions.", lambda: values[0])
    endpoint.metrics.connection("a code that a peer made up")
    values[0] = 2.0
    status, text = await endpoint.get("/metrics")
    assert status == 200
    assert b"\ntunnelmesh_agent_sessions 2.0\n" in text
    assert b'tunnelmesh_entry_connections_total{code="other"} 1.0' in text


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /admin HTTP/1.1\r\n\r\n", 404),
        (b"POST /health/live HTTP/1.1\r\n\r\n", 405),
        (b"HEAD /health/live HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
    ],
)
async def test_everything_else(endpoint: Endpoint, request_head: bytes, status: int) -> None:
    assert (await endpoint.ask(request_head))[0] == status


async def test_who_says_too_much_or_nothing_is_cut(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE", 0.05)
    for said in (b"", b"GET /", b"x" * 100_000):
        async with connected(endpoint.port) as client:
            with suppress(ConnectionResetError, BrokenPipeError):
                await client.send(said)
                assert await client.rest() == b""


async def test_more_than_a_few_at_once_are_turned_away(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 1)
    async with connected(endpoint.port) as first, connected(endpoint.port) as second:
        await first.send(b"GET ")
        with suppress(ConnectionResetError):
            assert await second.rest() == b""
        await first.send(b"/health/live HTTP/1.1\r\n\r\n")
        assert (await first.rest()).startswith(b"HTTP/1.1 200 ")


async def test_a_whole_node_says_how_it_is(cluster: Cluster) -> None:
    node = await cluster.start_node("node-a")
    await cluster.start_agent("agent-1", node)
    assert node.node.readiness() == {"standing": None, "database": None, "entries": None}
    text = node.node.runtime.metrics.render().decode()
    for line in (
        "tunnelmesh_agent_sessions 1.0",
        "tunnelmesh_node_sessions 0.0",
        "tunnelmesh_peer_sessions 0.0",
        "tunnelmesh_ready 1.0",
        "tunnelmesh_shed 0.0",
        'tunnelmesh_admissions_total{code="admitted",door="agent"} 1.0',
    ):
        assert f"\n{line}\n" in text
