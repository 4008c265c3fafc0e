"""`tunnelmesh.db.url`, and what the SQLite settings make of a connection."""

from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection

from tunnelmesh.common.errors import Invalid
from tunnelmesh.db.url import database_settings


def test_path_is_absolute_and_unquoted(tmp_path: Path) -> None:
    path = f"{tmp_path}/a b%20ä.sqlite3"
    assert database_settings(f"sqlite:///{quote(path)}")["NAME"] == path


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/var/lib/x",
        "sqlite:",
        "sqlite://",
        "sqlite:///relative",
        "sqlite://host/x",
        "sqlite:////",
        "sqlite:////folder/",
        "sqlite:////x?mode=ro",
        "sqlite:////x#y",
        "mysql://root:canary@db/tunnelmesh",
    ],
)
def test_anything_else_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Invalid) as refusal:
        database_settings(url)
    assert refusal.value.code == "bad_database_url"
    assert "sqlite:////absolute/path" in refusal.value.hint
    assert "canary" not in str(refusal.value)


@pytest.mark.django_db(transaction=True)
def test_connection_is_set_up_for_several_writers() -> None:
    with connection.cursor() as cursor:
        pragmas = {
            name: cursor.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 5000, "foreign_keys": 1}
    assert connection.transaction_mode == "IMMEDIATE"
