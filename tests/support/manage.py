"""`manage.py` as an operator starts it: a process of its own under the production settings."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"
SECONDS = 30.0


def environment() -> dict[str, str]:
    """This process's, without what configures the product."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TUNNELMESH_")}
    return inherited | {"DJANGO_SETTINGS_MODULE": "tunnelmesh.settings.production"}


def manage(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    words = [sys.executable, str(MANAGE), *map(str, arguments)]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False)


class Background:
    """A command that runs on; its output goes to `log`."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        self.child = child
        self._log = log

    @property
    def said(self) -> str:
        """What it has written so far."""
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        """Return once it has written `text`; another process sets no event."""
        deadline = time.monotonic() + SECONDS
        while text not in self.said:
            assert self.child.poll() is None, f"ended with {self.child.returncode}: {self.said}"
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.said}"
            time.sleep(0.02)

    def end(self) -> int:
        """SIGTERM; its exit code."""
        self.child.terminate()
        return self.child.wait(SECONDS)


@contextmanager
def running(log: Path, *arguments: str | Path) -> Iterator[Background]:
    """A command in the background, killed at the end if it is still there."""
    words = [sys.executable, str(MANAGE), *map(str, arguments)]
    with log.open("wb") as output:
        child = subprocess.Popen(words, env=environment(), stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Background(child, log)
    finally:
        child.kill()
        child.wait()
