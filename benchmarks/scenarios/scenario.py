"""What the benchmark measures: a way from a local port to the target."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Tunnel:
    """A scenario that is up: where to connect, and the processes that it consists of."""

    port: int
    pids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A kind of tunnel. `open(target, folder)` starts it towards a local port; leaving its context ends it."""

    name: str
    title: str
    legs: int  # how often the bytes are encrypted and decrypted on their way
    open: Callable[[int, Path], AbstractContextManager[Tunnel]]
    programs: tuple[str, ...] = ()
    install: str = ""  # the one command that brings the programs
    absent: Callable[[], bool] | None = None  # a check beyond the programs

    @property
    def ours(self) -> bool:
        return self.name.startswith("tunnelmesh")

    def is_absent(self) -> bool:
        """True when this machine lacks a program that the scenario needs."""
        return not all(map(program, self.programs)) or (self.absent is not None and self.absent())


# Where Debian puts servers, and the PATH of an ordinary user does not look.
_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def program(name: str) -> str | None:
    """The absolute path of a program on PATH or among the system's servers; None when there is none."""
    found = shutil.which(name) or next(filter(None, (shutil.which(name, path=folder) for folder in _SYSTEM)), None)
    return str(Path(found).absolute()) if found else None


def needed(name: str) -> str:
    """The same, for a scenario that was found to be there. Raises FileNotFoundError when it has gone since."""
    if found := program(name):
        return found
    raise FileNotFoundError(f"{name} is not on PATH")
