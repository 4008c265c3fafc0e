"""Files that a configuration names: there, readable by this user, and closed to others where they hold a secret."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from django.utils.translation import gettext as _

from relay.checkup.finding import Finding, failed, passed, warned


def unreadable(check: str, path: Path) -> Finding | None:
    """Why this user cannot read the file, None if it can."""
    hint = _("Look: namei -l %(path)s") % {"path": path}
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return failed(check, _("%(path)s is not a regular file") % {"path": path}, hint)
        with path.open("rb"):
            return None
    except OSError as error:
        return failed(check, f"{path}: {error.strerror}", hint)


def private_key(check: str, path: Path) -> Finding:
    """A private key of which others can read a bit fails; a group that can write it is only warned about."""
    mode = path.stat().st_mode
    if mode & 0o007:
        text = _("%(path)s is open to every user of this host (mode %(mode)s)")
        return failed(check, text % {"path": path, "mode": _octal(mode)}, _chmod("o=", path))
    if mode & 0o020:
        text = _("%(path)s can be replaced by its group (mode %(mode)s)")
        return warned(check, text % {"path": path, "mode": _octal(mode)}, _chmod("g-w", path))
    return passed(check, _("%(path)s, closed to others") % {"path": path})


def secret_file(check: str, path: Path) -> Iterator[Finding]:
    """A file with a token that others can read is only warned about: the token still works."""
    mode = path.stat().st_mode
    if mode & 0o007:
        text = _("%(path)s is open to every user of this host (mode %(mode)s)")
        yield warned(check, text % {"path": path, "mode": _octal(mode)}, _chmod("o=", path))


def configuration_file(path: Path, *, holds_secret: bool) -> Finding:
    """Who can write the file decides what root runs; who can read it has a secret that stands in it."""
    check, mode = "configuration", path.stat().st_mode
    if mode & 0o002:
        text = _("%(path)s can be written by every user of this host (mode %(mode)s)")
        return failed(check, text % {"path": path, "mode": _octal(mode)}, _chmod("o-w", path))
    if holds_secret and mode & 0o004:
        text = _("%(path)s holds a secret and every user of this host can read it (mode %(mode)s)")
        return failed(check, text % {"path": path, "mode": _octal(mode)}, _chmod("o=", path))
    return passed(check, _("%(path)s is readable and has no unknown keys") % {"path": path})


def _octal(mode: int) -> str:
    return f"{stat.S_IMODE(mode):04o}"


def _chmod(change: str, path: Path) -> str:
    return _("Run: chmod %(change)s %(path)s") % {"change": change, "path": path}
