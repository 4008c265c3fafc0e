"""A node's record in a mesh's database that no process stands behind: facts for the admission checks, set by a test."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

EPOCH = 7


def moment(offset: timedelta) -> str:
    """A time relative to now, as Django writes it into SQLite."""
    return (datetime.now(UTC) + offset).strftime("%Y-%m-%d %H:%M:%S.%f")


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction, from BEGIN IMMEDIATE to COMMIT."""
    connection = sqlite3.connect(path, timeout=5, isolation_level="IMMEDIATE")
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def put_node(
    path: Path,
    node_id: str,
    *,
    enabled: bool = True,
    deleted: bool = False,
    expires_in: timedelta = timedelta(hours=1),
    epoch: int = EPOCH,
    beat_epoch: int | None = None,
) -> None:
    """Make the record of ``node_id`` so: right for admission unless an argument says otherwise."""
    now = moment(timedelta())
    node = (node_id, node_id, "127.0.0.1:1", epoch, enabled, now if deleted else None, "test", "", now, now)
    beat = (node_id, beat_epoch or epoch, now, moment(expires_in), False, "[]")
    with open_database(path) as database:
        database.execute(
            "INSERT OR REPLACE INTO server_nodes (id, name, address, epoch, enabled, deleted_at, version,"
            " certificate_fingerprint, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            node,
        )
        database.execute(
            "INSERT OR REPLACE INTO server_node_heartbeats (server_node_id, epoch, last_seen_at, expires_at,"
            " draining, unreachable_peers) VALUES (?, ?, ?, ?, ?, ?)",
            beat,
        )
