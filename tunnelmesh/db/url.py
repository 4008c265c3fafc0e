"""From `database.url` to an entry of Django's DATABASES; pure."""

from typing import Any
from urllib.parse import unquote, urlsplit

from tunnelmesh.common.errors import Invalid

SQLITE_BUSY_TIMEOUT_SECONDS = 5


def database_settings(url: str) -> dict[str, Any]:
    """The DATABASES entry for `sqlite:////absolute/path`. Raises Invalid (`bad_database_url`) for any other address."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        raise Invalid(
            "bad_database_url",
            f"database.url: the scheme {parts.scheme!r} is not supported; found an address that is not sqlite",
            hint="write database.url as sqlite:////absolute/path/to/tunnelmesh.sqlite3",
        )
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or parts.query or parts.fragment or not path.startswith("/") or path.endswith("/"):
        raise Invalid(
            "bad_database_url",
            "database.url: not the absolute path of a file",
            hint="write four slashes: sqlite:////absolute/path/to/tunnelmesh.sqlite3",
        )
    return sqlite_settings(path)


def sqlite_settings(path: str) -> dict[str, Any]:
    """SQLite for several writing processes (design section 4): WAL, write lock taken at BEGIN, a bounded wait for it.

    A deferred transaction that reads and then writes fails at once when another process wrote in between; IMMEDIATE
    waits instead, up to the busy timeout.
    """
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": SQLITE_BUSY_TIMEOUT_SECONDS,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
