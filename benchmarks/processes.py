"""Processes of the benchmark: started in sessions of their own, measured as trees, and ended by their own ids only."""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS = 5.0


@contextmanager
def running(argv: Sequence[str | Path], *, log: Path, cwd: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, its output in `log`; it and what it started are ended on the way out."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=cwd, start_new_session=True
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Ends the session that `process` leads: politely first, by force after five seconds."""
    if process.returncode is not None:  # waited for already: its id may be another's by now
        return
    _signal_session(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    _signal_session(process.pid, signal.SIGKILL)
    process.wait()


def _signal_session(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def tree(roots: Iterable[int]) -> list[int]:
    """The processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208 - names are all that is wanted
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    found, queue = [], list(roots)
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def cpu_seconds(roots: Iterable[int]) -> float:
    """Processor time, user and system, of the trees, with that of children which have ended and been waited for."""
    ticks = 0
    for pid in tree(roots):
        if fields := _stat(pid):
            ticks += sum(int(value) for value in fields[11:15])
    return ticks / _TICKS_PER_SECOND


def memory_bytes(roots: Iterable[int]) -> int:
    """Proportional set size of the trees: shared pages are counted once in all."""
    total = 0
    for pid in tree(roots):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name, which may itself hold blanks and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
