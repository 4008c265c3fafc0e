"""Each peer really carries bytes, and leaves nothing running; skipped by name where it is not installed."""

from pathlib import Path

import pytest

from benchmarks.operations import BULKS
from benchmarks.processes import tree
from benchmarks.rounds import up
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.scenario import Scenario
from tests.benchmarks.conftest import Watch

PEERS = [
    pytest.param(one, id=one.name, marks=getattr(pytest.mark, one.name.partition("-")[0]))
    for one in SCENARIOS
    if one.install
]


@pytest.mark.parametrize("scenario", PEERS)
def test_peer(scenario: Scenario, tmp_path: Path, watch: Watch) -> None:
    if scenario.is_absent():
        pytest.skip(f"absent; {scenario.install}")
    with up(scenario, tmp_path / "scratch") as subject:
        watch(tree(subject.tunnel.pids.values()))
        assert len(subject.tunnel.pids) == scenario.legs + 1
        for bulk in BULKS:
            bulk.verify(subject)
    assert watch.all_ended()
