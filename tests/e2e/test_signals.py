"""Ending real processes (P11, R37): idle, streaming and stuck, and the impatient operator."""

from __future__ import annotations

import os
import signal

import pytest

from relay.demo import check
from relay.demo.service import CHUNK
from relay.demo.topology import Topology
from tunnelmesh.common.errors import ExitCode

SECONDS = 10.0


@pytest.mark.parametrize("name", ["agent-1", "node-b", "node-a"])
def test_idle(mesh: Topology, name: str) -> None:
    process = mesh.process(name)
    process.terminate()
    assert process.wait(SECONDS) == ExitCode.OK
    process.start()
    mesh.wait_ready()


@pytest.mark.parametrize("name", ["agent-1", "node-b", "node-a"])
def test_stream_that_is_open_may_finish(mesh: Topology, name: str) -> None:
    process = mesh.process(name)
    with check.request(mesh.entries["web"], "POST", "/echo", body=2 * CHUNK) as answer:
        answer.send([b"x" * CHUNK])
        answer.expect([b"x" * CHUNK], what="echo")
        process.terminate()
        answer.send([b"y" * CHUNK])
        answer.expect([b"y" * CHUNK], what="echo after SIGTERM")
    assert process.wait(SECONDS) == ExitCode.OK
    process.start()
    mesh.wait_ready()


@pytest.mark.parametrize("name", ["agent-1", "node-b", "node-a"])
def test_second_signal_ends_it_at_once_and_the_user_sees_a_reset(mesh: Topology, name: str) -> None:
    process = mesh.process(name)
    with check.request(mesh.entries["web"], "POST", "/echo", body=2 * CHUNK) as answer:
        answer.send([b"x" * CHUNK])
        answer.expect([b"x" * CHUNK], what="echo")
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(process.pid, number)
        assert process.wait(SECONDS) == ExitCode.INTERRUPTED
        with pytest.raises(ConnectionResetError):
            answer.expect([b"y"], what="nothing")
    process.start()
    mesh.wait_ready()
