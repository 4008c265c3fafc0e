"""On the wire: both legs between processes are TLS from the first byte; the payload is in clear at the user's only."""

import os
from pathlib import Path

import pytest

from relay.demo import check
from relay.demo.service import random_chunks
from relay.demo.shape import two_nodes
from relay.demo.topology import Topology
from tests.support.capture import Capture, tls_records

SIZE, SEED = 1024 * 1024, 4711
HANDSHAKE, APPLICATION_DATA = 22, 23

pytestmark = [
    pytest.mark.capture,
    pytest.mark.skipif(os.getuid() != 0, reason="a packet capture needs root"),
]


def pieces(content: bytes) -> list[bytes]:
    """Parts of the content that are long enough never to occur by chance."""
    return [content[position : position + 32] for position in range(0, len(content), 4096)]


def test_payload_is_encrypted_between_the_processes(tmp_path: Path) -> None:
    down, up = b"".join(random_chunks(SEED, SIZE)), b"".join(random_chunks(SEED + 1, SIZE))
    mesh = Topology(tmp_path, two_nodes())
    relay, agents = mesh.layout.nodes["node-b"].relay, mesh.layout.nodes["node-b"].agents
    entry = mesh.layout.entries["web"]
    with Capture((relay, agents, entry)) as capture, mesh:
        check.half_close(mesh.entries["web"], seed=SEED, size=SIZE)
        tokens = [
            path.read_bytes() for path in (mesh.folder.path / "secrets").glob("*") if path.name != "admin-password"
        ]
        for process in ("node-a", "agent-1"):
            mesh.process(process).stop(10)
        for port in (relay, agents, entry):
            capture.wait_for_end_of(port, seconds=10)

    legs = {port: capture.streams(port) for port in (relay, agents)}
    for streams in legs.values():
        carried = sum(map(len, streams))
        assert carried > 2 * SIZE, "the payload did not go this way"
        for stream in streams:
            types = tls_records(stream)
            assert types[0] == HANDSHAKE
            assert APPLICATION_DATA in types
            assert not any(piece in stream for piece in pieces(down) + pieces(up))
            assert not any(token in stream for token in tokens)
            assert b"CONNECT" not in stream

    at_the_user = b"".join(capture.streams(entry))
    assert down in at_the_user, "the capture would not have seen plaintext"
    assert up in at_the_user
