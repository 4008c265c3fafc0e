"""A user's bytes through the fleet: local first, then the node that holds the agent; another way only when it is safe."""

from __future__ import annotations

import asyncio

import pytest

from relay.demo.ports import LOOPBACK
from tests.support.cluster import Cluster
from tests.support.target import EchoTarget


async def ask(port: int, said: bytes = b"hello") -> bytes:
    """What an entry's service answers; the user half-closes, so the answer ends cleanly. Raises ConnectionResetError."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(said)
        writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read(-1)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("entry_on", ["node-a", "node-b"])
async def test_bytes_reach_the_agent_from_either_node(cluster: Cluster, entry_on: str) -> None:
    async with EchoTarget() as target:
        entry = await cluster.publish("agent-1", target.port, node=entry_on)
        await cluster.start_node("node-a")
        node_b = await cluster.start_node("node-b")
        await cluster.start_agent("agent-1", node_b)
        said = bytes(range(256)) * 4096
        assert await ask(entry, said) == said
