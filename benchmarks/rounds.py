"""The run: every scenario up at once, every operation on each of them in every round, in an order that rotates."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks import generator
from benchmarks.load.dial import LoadFailed
from benchmarks.operations import BULKS, IDLE, Operation, Subject, Values
from benchmarks.scenarios.scenario import Scenario
from benchmarks.waiting import NotStarted
from tunnelmesh.common.errors import DomainError

Item = TypeVar("Item")

FAULTS = (LoadFailed, NotStarted, DomainError, OSError, subprocess.SubprocessError)


@dataclass(frozen=True)
class Sample:
    """What one operation on one scenario gave in one round; or why it gave nothing."""

    round: int
    scenario: str
    operation: str
    values: Values = field(default_factory=dict)
    error: str = ""


@contextmanager
def up(scenario: Scenario, folder: Path) -> Iterator[Subject]:
    """Starts the scenario with a target of its own and waits until a byte has gone there and back."""
    folder.mkdir(parents=True)
    with generator.target() as port, scenario.open(port, folder) as tunnel:
        generator.measure("latency", timeout=generator.START_SECONDS, port=tunnel.port, seconds=0)
        yield Subject(scenario, tunnel)


@dataclass
class Run:
    """One run; `samples` grows as it goes on."""

    scratch: Path
    operations: Sequence[Operation]
    rounds: int
    seconds: float
    say: Callable[[str], None]
    samples: list[Sample] = field(default_factory=list)
    _folders: int = 0

    def measure(self, scenarios: Sequence[Scenario], *, then: Callable[[Subject], None] | None = None) -> None:
        """All rounds. `then` is called for each scenario after the last, while it is still up."""
        with ExitStack() as stack:
            subjects = [found for scenario in scenarios if (found := self._start(stack, scenario))]
            subjects = [subject for subject in subjects if self._is_sound(subject)]
            for number in range(self.rounds):
                for operation in self.operations:
                    for subject in _rotated(subjects, number) if operation is not IDLE else ():
                        self._sample(number, subject, operation)
                self.say(f"round {number + 1} of {self.rounds} done")
            if then:
                for subject in subjects:
                    then(subject)
        if IDLE in self.operations:
            self._measure_idle([subject.scenario for subject in subjects if subject.tunnel.pids])

    def _measure_idle(self, scenarios: Sequence[Scenario]) -> None:
        """Memory needs processes that have done nothing before: one fresh start for each sample."""
        for number in range(self.rounds):
            for scenario in _rotated(scenarios, number):
                with ExitStack() as stack:
                    if subject := self._start(stack, scenario):
                        self._sample(number, subject, IDLE)
            self.say(f"memory, round {number + 1} of {self.rounds} done")

    def _start(self, stack: ExitStack, scenario: Scenario) -> Subject | None:
        self._folders += 1
        try:
            return stack.enter_context(up(scenario, self.scratch / str(self._folders)))
        except FAULTS as error:
            self._fail(-1, scenario, "start", error)
            return None

    def _is_sound(self, subject: Subject) -> bool:
        """False when the scenario does not carry every byte right: then nothing else about it counts."""
        self.say(f"checking {subject.scenario.title}")
        try:
            for bulk in BULKS:
                bulk.verify(subject)
                if bulk in self.operations:
                    bulk.calibrate(subject)
        except FAULTS as error:
            self._fail(-1, subject.scenario, bulk.name, error)
            return False
        return True

    def _sample(self, number: int, subject: Subject, operation: Operation) -> None:
        try:
            values = operation.run(subject, self.seconds)
        except FAULTS as error:
            self._fail(number, subject.scenario, operation.name, error)
        else:
            self.samples.append(Sample(number, subject.scenario.name, operation.name, values))

    def _fail(self, number: int, scenario: Scenario, operation: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self.samples.append(Sample(number, scenario.name, operation, error=text))
        self.say(f"FAILED {scenario.title}, {operation}: {text}")


def _rotated(items: Sequence[Item], by: int) -> list[Item]:
    by %= max(1, len(items))
    return [*items[by:], *items[:by]]
