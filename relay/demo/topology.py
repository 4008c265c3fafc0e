"""A running mesh of real processes on 127.0.0.1, made from a shape."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

from relay.demo.certificates import Certificates, ensure_certificates
from relay.demo.commands import ROOT, CommandLine, commands, database_command
from relay.demo.config import write_configs
from relay.demo.folder import Folder
from relay.demo.layout import Layout, ports_needed
from relay.demo.ports import LOOPBACK, Reservation
from relay.demo.process import Process
from relay.demo.readiness import Condition, connected, serving
from relay.demo.seed import ADMIN_PASSWORD, Seed
from relay.demo.shape import Shape
from relay.demo.wait import NotInTime, wait_until
from relay.process import LOOP_VARIABLE
from tunnelmesh.common.clock import SystemClock

READY_SECONDS = 60.0
STOP_SECONDS = 10.0


class Topology:
    """A mesh in the state folder ``state``; as a context manager: started and ready inside, nothing left after."""

    certificates: Certificates

    def __init__(
        self,
        state: Path,
        shape: Shape,
        *,
        env: Mapping[str, str] | None = None,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the folder over (see `Folder` for what it raises).

        ``env`` is added to every process's environment. ``watch`` is called during every wait; what it raises
        ends the wait.
        """
        self.shape = shape
        self.folder = Folder(state)
        self._reservation = Reservation(ports_needed(shape))
        self.layout = Layout.of(shape, self._reservation.ports)
        self._watch = watch
        self._env = {name: value for name, value in os.environ.items() if _is_inherited(name)}
        self._env |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(env or {})}
        self.processes = {
            name: self._process(name, command)
            for name, command in commands(shape, self.layout, folder=self.folder.path).items()
        }

    def __enter__(self) -> Self:
        try:
            self.bring_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def entries(self) -> dict[str, tuple[str, int]]:
        """Host and port of each entry, by name."""
        return {name: (LOOPBACK, port) for name, port in self.layout.entries.items()}

    @property
    def pids(self) -> dict[str, int | None]:
        """The process id of each process by name; None for one that does not run."""
        return {name: process.pid if process.running else None for name, process in self.processes.items()}

    def process(self, name: str) -> Process:
        """The process of a node or an agent (by its id), ``service`` or ``console``."""
        return self.processes[name]

    def bring_up(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Do everything up to a mesh that is ready; ``progress`` is told each step that is done.

        Raises `ProcessDied` or `NotInTime` with the tail of a log; what was started then still runs: see `close`.
        """
        self.certificates = ensure_certificates(self.folder.path / "pki", self.shape.nodes)
        progress("certificates")
        write_configs(self.shape, self.layout, folder=self.folder, pins=self.certificates.pins)
        progress("configuration")
        self._fill_database()
        progress("database")
        agents = [agent.id for agent in self.shape.agents]
        self._start(name for name in self.processes if name not in agents)
        self._wait(serving(self.shape, self.layout), READY_SECONDS)
        self._start(agents)  # now their first dial finds somebody
        progress("processes")
        self.wait_ready()
        progress("ready")

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Return once every process serves and every agent is connected to all its nodes (again)."""
        self._wait(chain(serving(self.shape, self.layout), connected(self.shape, self.layout)), seconds)

    def check_alive(self) -> None:
        """Raise `ProcessDied` if a process that was started has ended."""
        for process in self.processes.values():
            if process.was_started:
                process.check()
        self._watch()

    def _process(self, name: str, command: CommandLine) -> Process:
        log = self.folder.path / "logs" / f"{name}.log"
        return Process(name, command.words, log=log, env=self._env | command.env, keep_open=self.folder.lock_fd)

    def _fill_database(self) -> None:
        """Let a child with Django migrate the database and write the rows of this shape."""
        if self.shape.console:
            self.folder.secret(ADMIN_PASSWORD)
        Seed.of(self.shape, self.layout).write(self.folder)
        child = self._process("database", database_command(self.shape, folder=self.folder.path))
        child.start()
        try:
            wait_until(
                lambda: not child.running, seconds=READY_SECONDS, what="the database is ready", watch=self._watch
            )
        finally:
            child.stop(0)
        if child.wait(0) != 0:
            raise child.died()

    def _start(self, names: Iterable[str]) -> None:
        for name in names:
            self.processes[name].start()

    def _wait(self, conditions: Iterable[Condition], seconds: float) -> None:
        for condition in conditions:
            try:
                wait_until(condition.holds, seconds=seconds, what=condition.what, watch=self.check_alive)
            except NotInTime as error:
                process = self.processes[condition.process]
                text = f"{error.message}; the last lines of the log of {process.name}:\n{process.tail()}"
                raise NotInTime(error.code, text, hint=f"See {process.log}") from error

    def stop(self) -> list[str]:
        """End every process; returns the names of those that had to be killed."""
        for process in self.processes.values():
            process.terminate()
        clock = SystemClock()
        deadline = clock.monotonic() + STOP_SECONDS
        return [p.name for p in self.processes.values() if not p.finish(max(0.0, deadline - clock.monotonic()))]

    def kill(self) -> None:
        """End every process at once."""
        for process in self.processes.values():
            process.finish(0)

    def close(self) -> None:
        """Stop, and give the folder back."""
        try:
            self.stop()
        finally:
            self.kill()
            self._reservation.release()
            self.folder.close()


def _is_inherited(variable: str) -> bool:
    """The shell's own TUNNELMESH_ variables are meant for another installation, but for the choice of event loop."""
    return variable == LOOP_VARIABLE or not variable.startswith("TUNNELMESH_")
