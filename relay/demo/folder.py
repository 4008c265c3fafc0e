"""The one folder in which a demo keeps everything: private, locked while anything of the demo is alive."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Any

from tunnelmesh.common.errors import Conflict, Refused

LOCK, DESCRIPTION = "lock", "demo.json"


class Folder:
    """An open state folder. Its lock belongs to this process and to every child that inherits ``lock_fd``."""

    def __init__(self, path: Path) -> None:
        """Make or take over ``path`` (0700).

        Raises `Refused` for a folder that is not a demo's, and `Conflict` while another demo, or a child that one left,
        is alive in it.
        """
        self.path = path.resolve()
        if self.path.exists() and not self.path.is_dir():
            raise self._refused("is not a folder")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.path / LOCK).exists() and any(self.path.iterdir()):
            raise self._refused("holds other things than a demo")
        if self.path.stat().st_uid != os.getuid():
            raise self._refused("belongs to another user")
        self.path.chmod(0o700)
        self.lock_fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock_fd)
            raise self._taken() from None
        for name in ("logs", "pki", "secrets"):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)

    def close(self) -> None:
        """Give the lock back, as far as this process holds it."""
        os.close(self.lock_fd)

    def write_private(self, name: str, text: str) -> Path:
        """Write ``text`` to a file (0600) of the folder, in one step, and return its path."""
        path, new = self.path / name, self.path / f"{name}.new"
        new.unlink(missing_ok=True)
        new.touch(mode=0o600, exist_ok=False)
        new.write_text(text, encoding="utf-8")
        return new.replace(path)

    def secret(self, name: str) -> str:
        """A random text that stays the same for the life of the folder."""
        path = self.path / "secrets" / name
        if not path.exists():
            self.write_private(f"secrets/{name}", secrets.token_urlsafe(32))
        return path.read_text(encoding="utf-8")

    def describe(self, description: dict[str, Any]) -> Path:
        """Write demo.json: what a script needs to drive this demo."""
        return self.write_private(DESCRIPTION, json.dumps(description, indent=2) + "\n")

    def _refused(self, why: str) -> Refused:
        return Refused(
            "not_a_demo_folder",
            f"{self.path} {why}, so nothing was written to it.",
            hint="Choose an empty or a new folder: ./dev demo --state DIR",
        )

    def _taken(self) -> Conflict:
        try:
            description = json.loads((self.path / DESCRIPTION).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            description = {}
        pids = [pid for pid in description.get("pids", {}).values() if pid]
        return Conflict(
            "demo_is_live",
            f"A demo is alive in {self.path}" + (f" (process ids {', '.join(map(str, pids))})." if pids else "."),
            hint="Stop it (Ctrl-C, or kill those processes), or choose another folder: ./dev demo --state DIR",
        )
