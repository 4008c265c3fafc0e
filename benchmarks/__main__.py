"""`python -m benchmarks`, or `./dev bench`."""

import dataclasses
import json
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.operations import OPERATIONS, Subject
from benchmarks.options import RESULTS, parse
from benchmarks.profiling import profile, profilers
from benchmarks.report import report
from benchmarks.rounds import Run, Sample
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.scenario import Scenario


def say(text: str) -> None:
    """Progress, on standard error: the result alone is on standard output."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return bench(options)
    except KeyboardInterrupt:
        return 130


def bench(options: Namespace) -> int:
    """0 when everything that is there was measured, 1 otherwise."""
    scenarios = present([one for one in SCENARIOS if one.name in options.only])
    output = options.json or RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    about = machine()
    with tempfile.TemporaryDirectory(prefix="tunnelmesh-bench-") as scratch:
        run = Run(
            scratch=Path(scratch),
            operations=[one for one in OPERATIONS if one.name in options.ops],
            rounds=options.rounds,
            seconds=options.secs,
            say=say,
        )
        run.measure(scenarios, then=profiler(run, output) if options.profile else None)
    write(output, options, about, run.samples)
    print(report(scenarios, run.samples))
    say(f"raw results: {output}")
    return int(any(sample.error for sample in run.samples))


def present(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Those that this machine can run; says how to get each of the others."""
    for one in scenarios:
        if one.is_absent():
            say(f"absent: {one.title}; to have it: {one.install}")
    return [one for one in scenarios if not one.is_absent()]


def profiler(run: Run, output: Path) -> Callable[[Subject], None]:
    """Profiles TunnelMesh into a folder beside the raw results."""
    folder = output.with_suffix("")
    folder.mkdir(exist_ok=True)
    if not profilers():
        say("no profiler is on PATH; to have one: apt-get install linux-perf, or .venv/bin/pip install py-spy")

    def each(subject: Subject) -> None:
        if subject.scenario.ours:
            profile(subject, run.operations, folder, say)

    return each


def write(output: Path, options: Namespace, about: dict[str, object], samples: Sequence[Sample]) -> None:
    """The raw results, one sample for each scenario, operation and round."""
    document = {
        "machine": about,
        "options": {"rounds": options.rounds, "secs": options.secs, "ops": options.ops, "only": options.only},
        "samples": [dataclasses.asdict(sample) for sample in samples],
    }
    output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
