"""No tunnel at all: what the machine, the generator and the target can do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.scenarios.scenario import Scenario, Tunnel


@contextmanager
def _open(target: int, _folder: Path) -> Iterator[Tunnel]:
    yield Tunnel(port=target)


SCENARIOS = (Scenario(name="loopback", title="bare loopback", legs=0, open=_open),)
