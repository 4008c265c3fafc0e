"""Every released schema upgrades to the newest and keeps its rows; going back gives what was there (P16, F34)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from pytest_django.plugin import DjangoDbBlocker

from tokens.scope import Allowlist, decode

FIXTURES = Path(__file__).parent / "fixtures"
OURS = (
    "agent_connection_leases", "audit_logs", "schema_meta", "server_nodes", "service_tokens",
)  # fmt: skip
SCHEMA_7 = [("tokens", "0001_schema_7")]
SCHEMA_8 = [("nodes", "0002_schema_8")]
BACK_TO_7 = [("relay", None), ("tokens", "0001_schema_7"), ("nodes", "0001_schema_7"), ("audit", "0001_schema_7")]
ALIAS = "upgrade"
Schema = dict[str, dict[str, Any]]


class Database:
    """A database file beside the tests' own, moved from schema to schema."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, *fixtures: str) -> None:
        with closing(sqlite3.connect(self.path)) as raw:
            for fixture in fixtures:
                raw.executescript((FIXTURES / fixture).read_text(encoding="utf-8"))

    def migrate(self, targets: list[tuple[str, str | None]] | None = None) -> None:
        """To the newest schema, or to the targets one after the other."""
        if targets is None:
            call_command("migrate", database=ALIAS, verbosity=0)
            return
        for target in targets:
            MigrationExecutor(connections[ALIAS]).migrate([target])

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows. A time without a fraction is written in two ways, which are one."""
        with closing(sqlite3.connect(self.path)) as raw:
            raw.row_factory = sqlite3.Row
            rows = raw.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
        return [
            {key: re.sub(r"(:\d\d)\.000000$", r"\1", value) if isinstance(value, str) else value for key, value in row}
            for row in (zip(row.keys(), row, strict=True) for row in rows)
        ]

    def version(self) -> str:
        (row,) = self.rows("schema_meta")
        return str(row["value"])

    def schema(self) -> Schema:
        """Columns (in any order) and indexes of every table but Django's own and SQLite's."""
        with closing(sqlite3.connect(self.path)) as raw:
            names = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type='table'")]
            return {
                name: {
                    "columns": {row[1]: row[2:] for row in raw.execute(f"PRAGMA table_info({name})")},
                    "indexes": sorted(
                        (row[2], [part[2] for part in raw.execute(f"PRAGMA index_info('{row[1]}')")])
                        for row in raw.execute(f"PRAGMA index_list({name})")
                    ),
                    "references": sorted(row[2:5] for row in raw.execute(f"PRAGMA foreign_key_list({name})")),
                }
                for name in names
                if not name.startswith(("django_", "auth_", "sqlite_"))
            }


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Database]:
    path = tmp_path / "upgrade.sqlite3"
    connections.settings[ALIAS] = {**connections.settings["default"], "NAME": str(path)}
    with django_db_blocker.unblock():
        yield Database(path)
        connections[ALIAS].close()
    del connections[ALIAS]
    del connections.settings[ALIAS]


@pytest.fixture
def v7(database: Database) -> Database:
    database.load("v7_sqlite.sql")
    return database


def test_the_dump_is_what_schema_7_is(database: Database, tmp_path: Path) -> None:
    """Nobody has changed the first migrations since they were released."""
    database.migrate(SCHEMA_7)
    database.load("v7_rows.sql")
    dump = Database(tmp_path / "dump.sqlite3")
    dump.load("v7_sqlite.sql")
    assert database.schema() == dump.schema()
    assert {table: database.rows(table) for table in OURS if table != "schema_meta"} == {
        table: dump.rows(table) for table in OURS if table != "schema_meta"
    }
    assert database.version() == dump.version() == "7"
    assert all(dump.rows(table) for table in OURS)


def test_schema_8_is_three_columns_and_the_name_backfilled(v7: Database) -> None:
    before, schema = v7.rows("server_nodes"), v7.schema()
    v7.migrate(SCHEMA_8)

    assert v7.rows("server_nodes") == [row | {"name": row["id"], "enabled": 1, "deleted_at": None} for row in before]
    after = v7.schema()
    columns = after["server_nodes"]["columns"]
    assert {name for name in columns if name not in schema["server_nodes"]["columns"]} == {
        "name", "enabled", "deleted_at",
    }  # fmt: skip
    for name in ("name", "enabled", "deleted_at"):
        del columns[name]
    assert after == schema
    assert v7.version() == "8"


class TestNewest:
    def test_every_row_is_kept(self, v7: Database) -> None:
        before = {table: v7.rows(table) for table in OURS}
        v7.migrate()
        assert v7.version() == "9"
        for table in OURS:
            assert [row.get("id") for row in v7.rows(table)] == [row.get("id") for row in before[table]]

    def test_heartbeats_moved_to_their_own_rows(self, v7: Database) -> None:
        before = v7.rows("server_nodes")
        v7.migrate()
        assert v7.rows("server_node_heartbeats") == [
            {
                "server_node_id": row["id"],
                "epoch": row["epoch"],
                "last_seen_at": row["last_seen_at"],
                "expires_at": row["expires_at"],
                "draining": 0,
                "unreachable_peers": "[]",
            }
            for row in before
        ]
        kept = ("id", "address", "epoch", "created_at", "updated_at")
        after = v7.rows("server_nodes")
        assert [[row[key] for key in kept] for row in after] == [[row[key] for key in kept] for row in before]
        assert 3_000_000_000 in [row["epoch"] for row in after]
        assert not {"last_seen_at", "expires_at"} & set(after[0])

    def test_leases_of_the_old_software_are_closed(self, v7: Database) -> None:
        before = v7.rows("agent_connection_leases")
        v7.migrate()
        after = v7.rows("agent_connection_leases")
        for old, new in zip(before, after, strict=True):
            assert new == old | {
                "node_epoch": 0,
                "generation": old["id"],
                "health_score": 100,
                "closed_at": old["updated_at"],
                "close_reason": "schema_9",
            }

    def test_tokens_keep_everything_but_their_one_node_binding(self, v7: Database) -> None:
        """F3, F4: neither narrowed to the old node nor widened to the fleet, until somebody rebuilds them."""
        before = v7.rows("service_tokens")
        v7.migrate()
        after = v7.rows("service_tokens")
        for old, new in zip(before, after, strict=True):
            assert {key: new[key] for key in old} == old
            assert decode(new["scope"]) == Allowlist(frozenset())
            assert not decode(new["scope"]).admits("server-a")
        assert [row["node_id"] for row in after] == ["server-a", None, "server-b"]

    def test_audit_details_become_after(self, v7: Database) -> None:
        before = v7.rows("audit_logs")
        v7.migrate()
        for old, new in zip(before, v7.rows("audit_logs"), strict=True):
            details = old.pop("details")
            assert new == old | {"before": "{}", "after": details, "request_id": "", "source_address": ""}

    def test_the_upgraded_schema_equals_a_fresh_one(self, v7: Database, tmp_path: Path) -> None:
        v7.migrate()
        upgraded = v7.schema()
        connections[ALIAS].close()
        v7.path.unlink()
        v7.migrate()
        assert v7.schema() == upgraded

    def test_back_to_7_gives_what_was_there(self, v7: Database) -> None:
        """All but what schema 7 has no column for: scopes, and that the leases are closed."""
        schema, before = v7.schema(), {table: v7.rows(table) for table in OURS}
        v7.migrate()
        v7.migrate(BACK_TO_7)
        assert v7.schema() == schema
        assert v7.version() == "7"
        for table in set(OURS) - {"schema_meta"}:
            assert v7.rows(table) == before[table]


@pytest.mark.django_db
def test_the_models_and_the_migrations_agree() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
