"""When a node beats, what it writes, and when it may serve (P3, P12, R14)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from nodes.facts import GRACE_SECONDS, HEARTBEAT_SECONDS, HeartbeatResult, LeaseLoad, Standing
from relay.node.heartbeat import Heartbeat
from relay.protocol.errors import GoAwayCode
from tests.support.runtime import runtime_with
from tunnelmesh.common.clock import ManualClock
from tunnelmesh.common.errors import DomainError

AWAY = DomainError("database_unavailable", "the database cannot be used")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Record:
    """A registry with one node's record. `beats` holds the loads of each heartbeat."""

    standing: Standing = Standing.OK
    revision: int = 1
    away: bool = False
    beats: list[list[LeaseLoad]] = field(default_factory=list)
    drains: list[bool] = field(default_factory=list)

    def authorisation_revision(self) -> int:
        self._check()
        return self.revision

    def heartbeat(
        self, node_id: str, *, epoch: int, loads: list[LeaseLoad], unreachable_peers: list[str], draining: bool
    ) -> HeartbeatResult:
        self._check()
        assert (node_id, epoch, unreachable_peers) == ("node-a", 7, ["node-x"])
        self.beats.append(loads)
        self.drains.append(draining)
        return HeartbeatResult(self.standing, epoch, NOW, NOW)

    def _check(self) -> None:
        if self.away:
            raise AWAY


@dataclass
class Node:
    heartbeat: Heartbeat
    record: Record
    clock: ManualClock
    loads: list[LeaseLoad]
    changes: list[str | None]


@asynccontextmanager
async def beating() -> AsyncIterator[Node]:
    """A node that has beaten once."""
    record, clock, loads, changes = Record(), ManualClock(), [], []
    async with runtime_with(record, clock) as runtime:
        heartbeat = Heartbeat(
            runtime,
            loads=lambda: list(loads),
            unreachable=lambda: ["node-x"],
            on_change=lambda: changes.append(heartbeat.suspended),
        )
        node = Node(heartbeat, record, clock, loads, changes)
        await heartbeat.look()
        yield node


class TestBeats:
    async def test_first_look_beats_and_the_next_only_looks(self) -> None:
        async with beating() as node:
            await node.heartbeat.look()
            assert len(node.record.beats) == 1

    async def test_beats_when_it_is_time(self) -> None:
        async with beating() as node:
            node.clock.advance(HEARTBEAT_SECONDS)
            await node.heartbeat.look()
            assert len(node.record.beats) == 2

    async def test_beats_at_once_when_a_fact_of_the_fleet_has_changed(self) -> None:
        async with beating() as node:
            node.record.revision = 2
            await node.heartbeat.look()
            await node.heartbeat.look()
            assert len(node.record.beats) == 2

    async def test_no_burst_after_a_sleep(self) -> None:
        async with beating() as node:
            node.clock.advance(10 * HEARTBEAT_SECONDS)
            for _ in range(3):
                await node.heartbeat.look()
            assert len(node.record.beats) == 2

    async def test_writes_only_the_loads_that_changed(self) -> None:
        async with beating() as node:
            one, two = LeaseLoad("c1", 1, 0, 100), LeaseLoad("c2", 2, 0, 100)
            node.loads[:] = [one, two]
            await node.heartbeat.beat()
            node.loads[:] = [one, LeaseLoad("c2", 2, 5, 100)]
            await node.heartbeat.beat()
            assert node.record.beats[1:] == [[one, two], [LeaseLoad("c2", 2, 5, 100)]]

    async def test_load_that_could_not_be_written_is_written_next_time(self) -> None:
        async with beating() as node:
            node.loads[:] = [LeaseLoad("c1", 1, 0, 100)]
            node.record.away = True
            with pytest.raises(DomainError):
                await node.heartbeat.beat()
            node.record.away = False
            await node.heartbeat.beat()
            assert node.record.beats[-1] == node.loads

    async def test_says_that_it_drains(self) -> None:
        async with beating() as node:
            node.heartbeat.draining = True
            await node.heartbeat.beat()
            assert node.record.drains == [False, True]


class TestStanding:
    @pytest.mark.parametrize(
        ("standing", "code"),
        [
            (Standing.FENCED, GoAwayCode.STALE_EPOCH),
            (Standing.DISABLED, GoAwayCode.NODE_DISABLED),
            (Standing.DELETED, GoAwayCode.NODE_DELETED),
        ],
    )
    async def test_suspended_by_its_record_and_back(self, standing: Standing, code: GoAwayCode) -> None:
        async with beating() as node:
            node.record.standing, node.record.revision = standing, 2
            await node.heartbeat.look()
            assert node.heartbeat.code is code
            node.record.standing, node.record.revision = Standing.OK, 3
            await node.heartbeat.look()
            assert node.changes == [f"this node is {standing}", None]


class TestOutage:
    async def test_serves_on_for_the_grace_and_no_longer(self, caplog: pytest.LogCaptureFixture) -> None:
        async with beating() as node:
            node.record.away = True
            node.clock.advance(GRACE_SECONDS)
            await node.heartbeat.look()
            assert node.heartbeat.suspended is None
            node.clock.advance(1)
            assert node.heartbeat.suspended is not None  # before anybody has looked: a process that slept (R14)
            await node.heartbeat.look()
            assert node.heartbeat.code is GoAwayCode.RECORD_EXPIRED
            assert len(node.changes) == 1
        assert caplog.text.count("the database does not answer") == 1

    async def test_beats_before_it_serves_again(self) -> None:
        async with beating() as node:
            node.record.away = True
            node.clock.advance(GRACE_SECONDS + 1)
            await node.heartbeat.look()
            node.record.away, node.record.standing = False, Standing.DISABLED
            await node.heartbeat.look()
            assert node.heartbeat.suspended == "this node is disabled"
            assert len(node.record.beats) == 2

    async def test_short_outage_changes_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        async with beating() as node:
            node.record.away = True
            node.clock.advance(5)
            await node.heartbeat.look()
            assert node.heartbeat.age == 5
            node.record.away = False
            await node.heartbeat.look()
            assert (node.changes, node.heartbeat.age) == ([], 0)
        assert "the database answers again" in caplog.text
