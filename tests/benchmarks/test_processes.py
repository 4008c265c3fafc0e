"""What the harness starts, it measures as a tree and ends; nothing else."""

import sys
from pathlib import Path

from benchmarks.processes import cpu_seconds, memory_bytes, running, tree
from benchmarks.waiting import wait_for_port
from relay.demo.ports import free_ports
from tests.benchmarks.conftest import Watch

# A parent whose child holds 32 MiB, burns some processor time, and then listens.
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[2]])"
CHILD = """
import socket, sys, time
held = bytearray(b"x" * (32 << 20))
while time.process_time() < 0.3: pass
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True: server.accept()[0].close()
"""


def test_a_tree_is_measured_and_ended(tmp_path: Path, watch: Watch) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "log"
    with running([sys.executable, "-c", PARENT, CHILD, str(port)], log=log) as process:
        wait_for_port(port, log=log)
        pids = tree([process.pid])
        assert len(pids) == 2
        watch(pids)
        assert cpu_seconds([process.pid]) >= 0.3
        assert memory_bytes([process.pid]) > 32 << 20
    assert watch.all_ended()
    assert log.read_text() == ""
