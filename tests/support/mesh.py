"""Meshes of real processes, each with a look at the end for what it left behind."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from relay.demo.shape import Shape
from relay.demo.topology import Topology
from tests.support.leaks import left_by


class LaunchMesh(Protocol):
    """The fixture ``launch_mesh``: starts a mesh that lives until the module's end."""

    def __call__(self, shape: Shape, *, env: Mapping[str, str] | None = None) -> Topology: ...


@contextmanager
def running(state: Path, shape: Shape, *, env: Mapping[str, str] | None = None) -> Iterator[Topology]:
    """A ready mesh; fails if it has left a process, a port or a file behind."""
    with Topology(state, shape, env=env) as mesh:
        yield mesh
    assert left_by(mesh) == []
