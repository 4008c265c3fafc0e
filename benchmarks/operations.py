"""What is done to a scenario in each round, and what is read from it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks import generator
from benchmarks.load.dial import LoadFailed
from benchmarks.processes import cpu_seconds, memory_bytes
from benchmarks.scenarios.scenario import Scenario, Tunnel

IDLE_STREAMS = 1000
PACED_RATE = 50_000_000
_CHECKED = 8 << 20
_TRIAL = 64 << 20
_LARGEST = 8 << 30
# A paced stream below this part of its rate is no load to compare with.
_NEAR = 0.9
_SETTLE = 0.3
# A command may take this much longer than asked before it is given up.
_PATIENCE = 30.0

Values = dict[str, float]


@dataclass
class Subject:
    """A scenario that is up, with the byte rates that its calibration found."""

    scenario: Scenario
    tunnel: Tunnel
    rates: dict[str, float] = field(default_factory=dict)

    def cpu(self) -> float:
        return cpu_seconds(self.tunnel.pids.values())

    def memory(self) -> int:
        return memory_bytes(self.tunnel.pids.values())


class Operation(Protocol):
    """One measurement of about `seconds`. `run` raises LoadFailed when it cannot be counted."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def run(self) -> Callable[[Subject, float], Values]: ...


@dataclass(frozen=True)
class Simple:
    """An operation that needs no calibration."""

    name: str
    title: str
    run: Callable[[Subject, float], Values]


@dataclass(frozen=True)
class Bulk:
    """Bulk transfer one way over a number of streams."""

    streams: int
    up: bool

    @property
    def name(self) -> str:
        return f"{'up' if self.up else 'down'}{self.streams}"

    @property
    def title(self) -> str:
        return f"bulk {'to' if self.up else 'from'} the target, streams at once: {self.streams}"

    def _move(self, subject: Subject, length: int, *, verified: bool = False) -> generator.Result:
        each = max(1, length // self.streams)
        options = {"streams": self.streams, "length": each, "up": self.up, "verified": verified}
        return generator.measure("bulk", timeout=2 * _PATIENCE, port=subject.tunnel.port, **options)

    def verify(self, subject: Subject) -> None:
        """Checks every byte of 8 MiB where it arrives. Raises LoadFailed."""
        self._move(subject, _CHECKED, verified=True)

    def calibrate(self, subject: Subject) -> None:
        """Finds how many bytes fill the time. Raises LoadFailed."""
        trial = self._move(subject, _TRIAL)
        subject.rates[self.name] = trial["bytes"] / trial["seconds"]

    def run(self, subject: Subject, seconds: float) -> Values:
        used = subject.cpu()
        result = self._move(subject, min(_LARGEST, int(subject.rates[self.name] * seconds)))
        used = subject.cpu() - used
        values = {self.name: result["bytes"] / result["seconds"] / 1e6, "generator_cpu": result["generator_cpu"]}
        if subject.tunnel.pids:
            values[f"{self.name}_cpu"] = used / (result["bytes"] / 1e9)
        return values


def _latency(subject: Subject, seconds: float, prefix: str = "latency") -> Values:
    result = generator.measure("latency", timeout=seconds + _PATIENCE, port=subject.tunnel.port, seconds=seconds)
    return _percentiles(prefix, result)


def _percentiles(prefix: str, result: generator.Result) -> Values:
    return {f"{prefix}_{key}": result[key] for key in ("p50", "p99", "samples") if result[key] is not None}


def _latency_beside(prefix: str, rate: int) -> Callable[[Subject, float], Values]:
    def run(subject: Subject, seconds: float) -> Values:
        # Twice the time: beside a saturated stream a round trip takes long, and p99 needs a hundred of them.
        seconds *= 2
        limit = seconds + 2 * _PATIENCE
        with generator.started("pace", port=subject.tunnel.port, rate=rate, seconds=limit) as bulk:
            generator.wait_until_ready(bulk)
            time.sleep(_SETTLE)
            values = _latency(subject, seconds, prefix)
            reached = generator.result_of(bulk, timeout=_PATIENCE)["rate"]
        if reached < rate * _NEAR:
            raise LoadFailed(f"the bulk beside it reached only {reached / 1e6:.1f} MB/s")
        return {**values, f"{prefix}_bulk": reached / 1e6}

    return run


def _connect(subject: Subject, seconds: float) -> Values:
    used = subject.cpu()
    result = generator.measure("connect", timeout=seconds + _PATIENCE, port=subject.tunnel.port, seconds=seconds)
    used = subject.cpu() - used
    values = {"connect_rate": result["rate"], "failed": result["failed"], **_percentiles("connect", result)}
    if subject.tunnel.pids and result["count"]:
        values["connect_cpu"] = used / result["count"] * 1e6
    return values


def _idle_memory(subject: Subject, _seconds: float) -> Values:
    """Growth of all the tunnel's processes with 1,000 streams open. To be run on a scenario just started."""
    time.sleep(_SETTLE)
    before = subject.memory()
    with _idle_streams(subject):
        time.sleep(2 * _SETTLE)
        after = subject.memory()
    return {"idle_memory": (after - before) / IDLE_STREAMS / 1024, "base_memory": before / 2**20}


@contextmanager
def _idle_streams(subject: Subject) -> Iterator[None]:
    with generator.started("idle", port=subject.tunnel.port, streams=IDLE_STREAMS) as process:
        generator.wait_until_ready(process)
        yield
        generator.result_of(process, timeout=_PATIENCE)


IDLE = Simple("idle", f"memory of {IDLE_STREAMS} idle streams", _idle_memory)

BULKS = tuple(Bulk(streams, up) for streams in (1, 8) for up in (True, False))
OPERATIONS: tuple[Operation, ...] = (
    *BULKS,
    Simple("latency", "round trips, nothing else going on", _latency),
    Simple("saturated", "round trips beside one saturated stream", _latency_beside("saturated", 0)),
    Simple("paced", "round trips beside 50 MB/s", _latency_beside("paced", PACED_RATE)),
    Simple("connect", "connect, one round trip, close; 32 at a time", _connect),
    IDLE,
)
