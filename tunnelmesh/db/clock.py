"""The database's clock: the one by which leases and expiries are judged (P15)."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import connection


def database_now() -> datetime:
    """Now, UTC and aware; to the microsecond on MySQL, to the millisecond on SQLite."""
    if connection.vendor == "mysql":
        statement = "SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%d %H:%i:%s.%f')"
    else:
        statement = "SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'now')"
    with connection.cursor() as cursor:
        cursor.execute(statement)
        (text,) = cursor.fetchone()
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
