"""Where a tunnel's processes spend their time: `perf` for everything native, `py-spy` for lines of Python."""

import collections
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load.dial import LoadFailed
from benchmarks.operations import IDLE, Operation, Subject
from benchmarks.processes import tree

_SECONDS = 4.0
_WRITE_SECONDS = 30.0
_ATTACH = 0.5
_LINES = 25


def profilers() -> dict[str, str]:
    """Those which are there, with their paths; py-spy may also be installed beside this Python."""
    beside = str(Path(sys.executable).parent)
    found = {name: shutil.which(name) or shutil.which(name, path=beside) for name in ("perf", "py-spy")}
    return {name: path for name, path in found.items() if path}


def profile(subject: Subject, operations: Sequence[Operation], folder: Path, say: Callable[[str], None]) -> None:
    """Runs each operation once more under each profiler and writes a text file for each process into `folder`."""
    tools = profilers()
    for operation in operations:
        if operation is IDLE or not subject.tunnel.pids:
            continue
        stem = folder / f"{subject.scenario.name}-{operation.name}"
        try:
            if "perf" in tools:
                _under_perf(tools["perf"], subject, operation, stem)
            if "py-spy" in tools:
                _under_py_spy(tools["py-spy"], subject, operation, stem)
        except (LoadFailed, OSError, subprocess.SubprocessError) as error:
            say(f"no profile of {operation.name}: {error}")
        else:
            say(f"profiles: {stem}-*.txt")


def _under_perf(perf: str, subject: Subject, operation: Operation, stem: Path) -> None:
    raw = {role: _path(stem, role, "perf") for role in subject.tunnel.pids}
    watch = []
    for role, pid in subject.tunnel.pids.items():
        watched = ",".join(map(str, tree([pid])))
        watch.append([perf, "record", "-q", "-F", "997", "-e", "cpu-clock", "-p", watched, "-o", str(raw[role])])
    with _recording(watch):
        operation.run(subject, _SECONDS)
    for path in raw.values():
        parts = [_perf_report(perf, path, order) for order in ("dso", "dso,symbol")]
        path.write_text("\n".join(parts))


def _perf_report(perf: str, data: Path, order: str) -> str:
    argv = [perf, "report", "--stdio", "-q", "-i", str(data), "--no-children", "--sort", order]
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=_WRITE_SECONDS, check=False)
    lines = [line.rstrip() for line in answer.stdout.splitlines() if line.strip()]
    return "\n".join([f"perf, by {order}", *lines[:_LINES], ""])


def _under_py_spy(py_spy: str, subject: Subject, operation: Operation, stem: Path) -> None:
    raw = {role: _path(stem, role, "py-spy") for role in subject.tunnel.pids}
    watch = [
        [py_spy, "record", "-p", str(pid), "-r", "250", "-d", "3600", "-f", "raw", "-o", str(raw[role])]
        for role, pid in subject.tunnel.pids.items()
    ]
    with _recording(watch):
        operation.run(subject, _SECONDS)
    for path in raw.values():
        path.write_text(_own_time(path.read_text()))


def _own_time(raw: str) -> str:
    """The lines on top of the stacks, from `frame;frame count`. `Runner.run` is the loop itself, and its waiting."""
    own: collections.Counter[str] = collections.Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        own[stack.rpartition(";")[2]] += int(count)
    total = max(1, own.total())
    return "\n".join([f"{count / total:6.1%}  {frame}" for frame, count in own.most_common(_LINES)]) + "\n"


@contextmanager
def _recording(commands: Sequence[Sequence[str | Path]]) -> Iterator[None]:
    """Profilers run while the body does; then each is told to write its results, and waited for."""
    quiet = subprocess.DEVNULL
    started = [subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet) for argv in commands]
    try:
        time.sleep(_ATTACH)
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
        for process in started:
            try:
                process.wait(_WRITE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _path(stem: Path, role: str, tool: str) -> Path:
    return stem.with_name(f"{stem.name}-{role.replace(' ', '-')}-{tool}.txt")
