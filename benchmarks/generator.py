"""Starts the load generator and the target, and reads the one line of JSON that each prints."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from benchmarks.load.dial import LoadFailed
from benchmarks.processes import stop

REPOSITORY = Path(__file__).resolve().parent.parent
START_SECONDS = 10.0

Result = dict[str, Any]


def measure(command: str, *, timeout: float, **options: object) -> Result:
    """Runs one command of `benchmarks.load` to its end. Raises LoadFailed with the reason it gave."""
    with started(command, **options) as process:
        return result_of(process, timeout=timeout)


@contextmanager
def started(command: str, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A command of `benchmarks.load` that runs beside the caller; ended on the way out if it still runs."""
    with _python("-m", "benchmarks.load", command, *_flags(options)) as process:
        yield process


def result_of(process: subprocess.Popen[str], *, timeout: float) -> Result:
    """What the command printed. Raises LoadFailed when it failed or is not done within `timeout` seconds."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"not done after {timeout:.0f} s") from None
    return _parsed(output, errors)


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    """Waits for the READY of a command that then holds until its stdin ends. Raises LoadFailed with its error."""
    line = _line(process.stdout)
    if line.strip() != "READY":
        _parsed(line, process.communicate(timeout=START_SECONDS)[1])


def _parsed(output: str, errors: str) -> Result:
    try:
        result: Result = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise LoadFailed(f"the load generator died: {errors.strip()[-300:]}") from None
    if "error" in result:
        raise LoadFailed(result["error"])
    return result


@contextmanager
def target() -> Iterator[int]:
    """The service behind a tunnel; yields its port."""
    with _python("-m", "benchmarks.target") as process:
        yield int(json.loads(_line(process.stdout))["port"])


def _line(stream: IO[str] | None) -> str:
    return stream.readline() if stream else ""


@contextmanager
def _python(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    argv = [sys.executable, *arguments]
    with subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=REPOSITORY, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            stop(process)


def _flags(options: dict[str, object]) -> list[str]:
    flags: list[str] = []
    for name, value in options.items():
        if value is True:
            flags.append(f"--{name}")
        elif value is not False:
            flags += [f"--{name}", str(value)]
    return flags
