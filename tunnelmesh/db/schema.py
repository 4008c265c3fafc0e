"""Is the database of the settings there, and as new as the code?"""

from __future__ import annotations

from pathlib import Path

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from tunnelmesh.common.errors import DomainError, Refused

HINT = "run: tunnelmesh migrate --config PATH (the same configuration)"


def require_schema() -> None:
    """Raises Refused (`schema_missing`) unless every migration of the code is applied, DomainError
    (`database_unavailable`) when that cannot be seen. Creates nothing, not even SQLite's empty file."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite" and not Path(name).exists():
        raise Refused("schema_missing", f"there is no database {name}", hint=HINT)
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        raise DomainError("database_unavailable", f"the database cannot be used: {error}", hint=HINT) from error
    finally:
        connection.close()
    if missing:
        first = missing[0][0]
        raise Refused(
            "schema_missing",
            f"the database lacks {len(missing)} migrations of this version; the first: {first.app_label}.{first.name}",
            hint=HINT,
        )
