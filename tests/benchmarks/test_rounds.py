"""A run goes on past what fails, counts nothing of a tunnel that changes bytes, and gives everyone the same turns."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.load.dial import LoadFailed
from benchmarks.operations import Simple, Subject, Values
from benchmarks.rounds import Run
from benchmarks.scenarios.loopback import SCENARIOS
from benchmarks.scenarios.scenario import Scenario, Tunnel
from benchmarks.waiting import NotStarted
from tests.benchmarks.wire import spoil, wire

(LOOPBACK,) = SCENARIOS


@contextmanager
def liar(target: int, _folder: Path) -> Iterator[Tunnel]:
    with wire(target, spoil) as port:
        yield Tunnel(port=port)


def stillborn(_target: int, _folder: Path) -> AbstractContextManager[Tunnel]:
    raise NotStarted("nothing listens")


def run(folder: Path, *scenarios: Scenario, operation: Simple, rounds: int = 1) -> Run:
    made = Run(scratch=folder, operations=[operation], rounds=rounds, seconds=0.01, say=lambda _: None)
    made.measure(scenarios)
    return made


def test_what_fails_is_kept_and_the_others_go_on(tmp_path: Path) -> None:
    visited: list[str] = []

    def visit(subject: Subject, _seconds: float) -> Values:
        visited.append(subject.scenario.name)
        if len(visited) == 2:
            raise LoadFailed("stalled")
        return {"visits": len(visited)}

    bad = (Scenario("liar", "a liar", 0, liar), Scenario("stillborn", "never starts", 0, stillborn))
    samples = run(tmp_path, *bad, LOOPBACK, operation=Simple("visit", "visit", visit), rounds=3).samples
    assert visited == ["loopback"] * 3
    start, check, first, second, third = samples
    assert (start.scenario, start.operation, start.error) == ("stillborn", "start", "NotStarted: nothing listens")
    assert (check.scenario, check.operation) == ("liar", "up1")
    assert "is wrong" in check.error
    assert (first.values, second.error, third.values) == ({"visits": 1}, "LoadFailed: stalled", {"visits": 3})


def test_the_order_rotates(tmp_path: Path) -> None:
    order: list[str] = []

    def visit(subject: Subject, _seconds: float) -> Values:
        order.append(subject.scenario.name)
        return {}

    three = [Scenario(name, name, 0, LOOPBACK.open) for name in "abc"]
    run(tmp_path, *three, operation=Simple("visit", "visit", visit), rounds=3)
    assert "".join(order) == "abcbcacab"
