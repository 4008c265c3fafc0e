"""What is remembered of where agents are: for a second, never a miss, and through an outage for the grace."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from nodes.facts import GRACE_SECONDS
from relay.node import directory as module
from relay.node.directory import Directory
from relay.router import LeaseInfo
from tests.support.runtime import runtime_with
from tunnelmesh.common.clock import ManualClock
from tunnelmesh.common.errors import DomainError

LEASE = LeaseInfo("agent-1", "c1", "node-b", 3, 1, "node-b.example:9443", 0)
AWAY = DomainError("database_unavailable", "the database cannot be used")


class Fleet:
    """A registry that knows leases. `gate` holds its readers up; `answer` may be an error."""

    def __init__(self, answer: list[LeaseInfo] | Exception) -> None:
        self.answer = answer
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()

    def live_leases(self, agent_id: str) -> list[LeaseInfo]:
        assert self.gate.wait(10)
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def look_up(directory: Directory) -> list[LeaseInfo] | DomainError:
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    directory.look_up("agent-1", found.set_result)
    return await asyncio.wait_for(found, 10)


async def test_answer_is_known_for_a_second() -> None:
    clock = ManualClock()
    async with runtime_with(Fleet([LEASE]), clock) as runtime:
        directory = Directory(runtime)
        assert directory.known("agent-1") is None
        assert await look_up(directory) == [LEASE]
        clock.advance(1.0)
        assert directory.known("agent-1") == [LEASE]
        clock.advance(0.01)
        assert directory.known("agent-1") is None


async def test_answer_that_proved_wrong_is_forgotten() -> None:
    async with runtime_with(Fleet([LEASE]), ManualClock()) as runtime:
        directory = Directory(runtime)
        await look_up(directory)
        directory.forget("agent-1")
        assert directory.known("agent-1") is None


async def test_miss_is_never_remembered_and_replaces_what_was() -> None:
    fleet = Fleet([LEASE])
    async with runtime_with(fleet, ManualClock()) as runtime:
        directory = Directory(runtime)
        await look_up(directory)
        fleet.answer = []
        assert await look_up(directory) == []
        assert directory.known("agent-1") is None


async def test_many_streams_ask_once() -> None:
    fleet = Fleet([LEASE])
    fleet.gate.clear()
    async with runtime_with(fleet, ManualClock()) as runtime:
        directory = Directory(runtime)
        asked = [asyncio.ensure_future(look_up(directory)) for _ in range(10)]
        await asyncio.sleep(0)
        fleet.gate.set()
        assert await asyncio.gather(*asked) == [[LEASE]] * 10
    assert fleet.asked == 1


async def test_too_many_waiters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITERS", 2)
    fleet = Fleet([LEASE])
    fleet.gate.clear()
    async with runtime_with(fleet, ManualClock()) as runtime:
        directory = Directory(runtime)
        waiting = [asyncio.ensure_future(look_up(directory)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await look_up(directory)
        assert isinstance(refused, DomainError)
        assert refused.code == "overloaded"
        fleet.gate.set()
        await asyncio.gather(*waiting)


async def test_without_a_database_the_last_answer_serves_for_the_grace() -> None:
    clock, fleet = ManualClock(), Fleet([LEASE])
    async with runtime_with(fleet, clock) as runtime:
        directory = Directory(runtime)
        await look_up(directory)
        fleet.answer = AWAY
        clock.advance(GRACE_SECONDS)
        assert await look_up(directory) == [LEASE]
        clock.advance(0.01)
        assert await look_up(directory) is AWAY


async def test_surprise_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    async with runtime_with(Fleet(ZeroDivisionError()), ManualClock()) as runtime:
        answer = await look_up(Directory(runtime))
        assert isinstance(answer, DomainError)
    assert "task leases of agent-1 failed" in caplog.text


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGENTS", 1)
    async with runtime_with(Fleet([LEASE]), ManualClock()) as runtime:
        directory = Directory(runtime)
        await look_up(directory)
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        directory.look_up("agent-2", found.set_result)
        await found
        assert (directory.known("agent-1"), directory.known("agent-2")) == (None, [LEASE])
