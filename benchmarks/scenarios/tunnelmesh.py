"""TunnelMesh itself: one node (the user enters where the agent is connected), and two nodes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.scenarios.scenario import Scenario, Tunnel
from relay.demo.ports import LOOPBACK
from relay.demo.shape import Shape, one_node, two_nodes
from relay.demo.topology import Topology


@contextmanager
def _mesh(target: int, folder: Path, *, shape: Callable[..., Shape]) -> Iterator[Tunnel]:
    with Topology(folder / "mesh", shape(target=f"{LOOPBACK}:{target}")) as mesh:
        _host, port = mesh.entries["web"]
        yield Tunnel(port=port, pids={name: pid for name, pid in mesh.pids.items() if pid is not None})


SCENARIOS = (
    Scenario("tunnelmesh-1", "TunnelMesh, one node", 1, partial(_mesh, shape=one_node)),
    Scenario("tunnelmesh-2", "TunnelMesh, two nodes", 2, partial(_mesh, shape=two_nodes)),
)
