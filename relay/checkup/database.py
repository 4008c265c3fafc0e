"""The database as far as it can be judged without opening it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from django.utils.translation import gettext as _

from relay.checkup.finding import Finding, failed, passed, skipped, warned
from tunnelmesh.common.errors import DomainError
from tunnelmesh.db.url import database_settings

_CHECK = "database.url"


def database(url: str) -> Iterator[Finding]:
    """The address is one that we serve; a SQLite file and its folder (for the write-ahead log) can be written."""
    try:
        path = Path(database_settings(url)["NAME"])
    except DomainError as error:
        yield failed(_CHECK, error.message, error.hint)
        return
    yield _sqlite(path)
    yield skipped("database.migrations", _("needs the database"), _("Run: tunnelmesh migrate --check"))


def _sqlite(path: Path) -> Finding:
    values = {"path": path, "folder": path.parent}
    hint = _("Look: namei -l %(path)s; its owner must be the user of the service.") % values
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return failed(_CHECK, _("the folder %(folder)s is missing, or this user cannot write it") % values, hint)
    if not path.exists():
        return warned(_CHECK, _("%(path)s is not there yet") % values, _("Run: tunnelmesh migrate"))
    if not os.access(path, os.R_OK | os.W_OK):
        return failed(_CHECK, _("this user cannot read and write %(path)s") % values, hint)
    return passed(_CHECK, _("%(path)s can be written") % values)
