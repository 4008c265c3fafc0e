"""The meshes of a module, and the marker of everything in this folder."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from relay.demo.shape import Shape, two_nodes
from relay.demo.topology import Topology
from tests.support.mesh import LaunchMesh, running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts real processes."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="module")
def launch_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchMesh]:
    """Start a mesh that lives until the module's end."""
    with ExitStack() as stack:

        def launch(shape: Shape, *, env: Mapping[str, str] | None = None) -> Topology:
            return stack.enter_context(running(tmp_path_factory.mktemp("mesh"), shape, env=env))

        yield launch


@pytest.fixture(scope="module")
def mesh(launch_mesh: LaunchMesh) -> Topology:
    """User -> node-a -> node-b -> agent-1 -> service."""
    return launch_mesh(two_nodes())
