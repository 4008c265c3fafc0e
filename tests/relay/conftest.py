"""The in-process fleet, with a look at its end for what it has left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from relay import agent, daemon
from tests.support.cluster import Cluster, eventually, open_sockets, other_tasks


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """A fleet without nodes or agents yet. At its end no socket and no task is left of it."""
    for module in (agent, daemon):
        monkeypatch.setattr(module, "settle_memory", lambda: None)
    sockets, tasks = open_sockets(), other_tasks()
    made = Cluster(tmp_path)
    yield made
    await made.close()
    await eventually(lambda: open_sockets() <= sockets, "sockets are left open")
    assert other_tasks() - tasks == set()
