"""One child process with its log: started, stopped in bounded time, never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunnelmesh.common.errors import DomainError

TAIL_LINES = 15


class ProcessDied(DomainError):
    """A child ended although nobody asked it to; its message ends in the tail of its log."""


class Process:
    """A command that can be started, stopped, killed and started again; every start appends to the same log."""

    def __init__(self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str], keep_open: int) -> None:
        """``keep_open``: a file descriptor of the parent that the child inherits (the lock of the state folder)."""
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._env = dict(env)
        self._keep_open = keep_open
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the newest start; raises `ProcessDied` when it was never started."""
        return self._started().pid

    @property
    def was_started(self) -> bool:
        """Whether it was started at all."""
        return self._child is not None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        """Start it in a process group of its own, so that a Ctrl-C of the terminal reaches the parent only."""
        if self.running:
            raise ValueError(f"{self.name} is running already")
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - the words are ours, no shell reads them
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                pass_fds=(self._keep_open,),
                process_group=0,
            )

    def terminate(self) -> None:
        """Ask it to end (SIGTERM), without waiting."""
        if self.running:
            self._started().terminate()

    def wait(self, seconds: float) -> int:
        """Return its exit code (negative: the signal that ended it); raises subprocess.TimeoutExpired."""
        return self._started().wait(seconds)

    def stop(self, seconds: float) -> bool:
        """End it: SIGTERM, then as `finish` does."""
        self.terminate()
        return self.finish(seconds)

    def finish(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for its end, then SIGKILL for its whole group. True when it ended by itself."""
        if self._child is None:
            return True
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """SIGKILL to its whole group, and reap it."""
        child = self._started()
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def check(self) -> None:
        """Raise `ProcessDied`, with its exit code and the tail of its log, unless it is running."""
        if not self.running:
            raise self.died()

    def died(self) -> ProcessDied:
        """The error that tells how it ended."""
        ending = _ending(self._started().returncode)
        return ProcessDied(
            "process_died",
            f"{self.name} ended ({ending}); the last lines of its log:\n{self.tail()}",
            hint=f"See {self.log}",
        )

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its log, indented."""
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(f"  {line}" for line in text[-lines:]) or "  (empty)"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise ProcessDied("process_died", f"{self.name} was never started")
        return self._child


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
