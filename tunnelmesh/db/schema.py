"""Is the database of the settings there, and as new as the code?"""

from __future__ import annotations

from pathlib import Path

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import gettext as _

from tunnelmesh.common.errors import DomainError, Refused


def require_schema() -> None:
    """Raises Refused (`schema_missing`) unless every migration of the code is applied, DomainError
    (`database_unavailable`) when that cannot be seen. Creates nothing, not even SQLite's empty file."""
    hint = _("run: tunnelmesh migrate --config PATH (the same configuration)")
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite" and not Path(name).exists():
        raise Refused("schema_missing", _("there is no database %(name)s") % {"name": name}, hint=hint)
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        text = _("the database cannot be used: %(cause)s") % {"cause": error}
        raise DomainError("database_unavailable", text, hint=hint) from error
    finally:
        connection.close()
    if missing:
        text = _("the database lacks %(count)d migrations of this version; the first: %(first)s")
        raise Refused("schema_missing", text % {"count": len(missing), "first": missing[0][0]}, hint=hint)
