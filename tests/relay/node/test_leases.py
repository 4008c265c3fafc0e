"""Leases are written in order and in batches, nothing is lost without a database, nobody keeps what he left (P8)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nodes.facts import Lease
from relay.node import leases as module
from relay.node.leases import Leases, close_reason
from relay.protocol.errors import GoAwayCode
from tests.support.cluster import eventually
from tests.support.runtime import runtime_with
from tunnelmesh.common.clock import ManualClock
from tunnelmesh.common.errors import Conflict, DomainError

AWAY = DomainError("database_unavailable", "the database cannot be used")


class Book:
    """A registry that writes down what it is asked for. `gate` holds its writers up; `error` is what it answers."""

    def __init__(self) -> None:
        self.acts: list[tuple[str, str]] = []
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.error: DomainError | None = None

    def open_lease(self, node_id: str, *, epoch: int, agent_id: str, connection_id: str) -> Lease:
        assert (node_id, epoch) == ("node-a", 7)
        self._enter("open", connection_id)
        return Lease(connection_id, len(self.acts))

    def close_lease(self, connection_id: str, *, generation: int, reason: str) -> bool:
        self._enter(reason, connection_id)
        return True

    def close_node_leases(self, node_id: str, *, epoch: int, reason: str) -> int:
        self._enter(reason, node_id)
        return 0

    def _enter(self, act: str, connection_id: str) -> None:
        assert self.gate.wait(10)
        self.threads.add(threading.get_ident())
        if self.error:
            raise self.error
        self.acts.append((act, connection_id))


@asynccontextmanager
async def keeping(book: Book) -> AsyncIterator[Leases]:
    async with runtime_with(book, ManualClock()) as runtime:
        leases = Leases(runtime)
        runtime.tasks.spawn(leases.run(), name="leases", critical=True)
        yield leases


async def test_opened_and_closed_in_the_order_asked_for() -> None:
    book = Book()
    async with keeping(book) as leases:
        lease = await leases.open("agent-1", "c1")
        leases.close(lease, "lost")
        await leases.open("agent-1", "c2")
    assert book.acts == [("open", "c1"), ("lost", "c1"), ("open", "c2")]


async def test_what_comes_meanwhile_is_written_in_one_hop() -> None:
    book = Book()
    book.gate.clear()
    async with keeping(book) as leases:
        asked = [asyncio.ensure_future(leases.open("agent-1", f"c{number}")) for number in range(20)]
        await asyncio.sleep(0)
        book.gate.set()
        opened = await asyncio.gather(*asked)
    assert [lease.connection_id for lease in opened] == [f"c{number}" for number in range(20)]
    assert len(book.threads) <= 2


async def test_refusal_reaches_the_one_who_asked() -> None:
    book = Book()
    book.error = Conflict("stale_epoch", "epoch 7 of node node-a is not the newest")
    async with keeping(book) as leases:
        with pytest.raises(Conflict, match="not the newest"):
            await leases.open("agent-1", "c1")


async def test_lease_of_one_who_left_is_closed_again() -> None:
    book = Book()
    book.gate.clear()
    async with keeping(book) as leases:
        asked = asyncio.ensure_future(leases.open("agent-1", "c1"))
        await asyncio.sleep(0.05)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        book.gate.set()
        await eventually(lambda: ("abandoned", "c1") in book.acts)
    assert book.acts == [("open", "c1"), ("abandoned", "c1")]


async def test_lease_that_comes_while_its_owner_leaves_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled between the answer and the turn in which it would be seen: the answer goes down with the task."""
    book = Book()
    async with keeping(book) as leases:
        settle = leases._settle

        def settle_and_cancel(act: Any, result: Any) -> bool:
            settled = settle(act, result)
            asked.cancel()
            return settled

        monkeypatch.setattr(leases, "_settle", settle_and_cancel)
        asked = asyncio.ensure_future(leases.open("agent-1", "c1"))
        with pytest.raises(asyncio.CancelledError):
            await asked
        await eventually(lambda: ("abandoned", "c1") in book.acts)


async def test_close_is_tried_again_until_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.01)
    book = Book()
    async with keeping(book) as leases:
        lease = await leases.open("agent-1", "c1")
        book.error = AWAY
        leases.close(lease, "lost")
        with pytest.raises(DomainError, match="cannot be used"):
            await leases.open("agent-1", "c2")
        book.error = None
        await eventually(lambda: ("lost", "c1") in book.acts)
    assert book.acts == [("open", "c1"), ("lost", "c1")]


async def test_close_that_can_never_be_written_does_not_block_the_others() -> None:
    book = Book()
    async with keeping(book) as leases:
        lease = await leases.open("agent-1", "c1")
        book.error = Conflict("impossible", "no")
        leases.close(lease, "lost")
        with pytest.raises(Conflict):
            await leases.open("agent-1", "c2")
        book.error = None
        await leases.open("agent-1", "c3")


async def test_without_a_database_one_failure_speaks_for_the_batch() -> None:
    book = Book()
    calls = 0

    def fail(*_args: object, **_kwargs: object) -> Lease:
        nonlocal calls
        assert book.gate.wait(10)
        calls += 1
        raise AWAY

    book.open_lease = fail  # type: ignore[method-assign]
    book.gate.clear()
    async with keeping(book) as leases:
        first = asyncio.ensure_future(leases.open("agent-1", "c0"))
        await asyncio.sleep(0.05)
        rest = [asyncio.ensure_future(leases.open("agent-1", f"c{number}")) for number in range(1, 20)]
        await asyncio.sleep(0)
        book.gate.set()
        results = await asyncio.gather(first, *rest, return_exceptions=True)
    assert {type(result) for result in results} == {DomainError}
    assert calls == 2


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_DEADLINE", 0.05)
    book = Book()
    book.gate.clear()
    async with keeping(book) as leases:
        with pytest.raises(DomainError, match="no lease from the database"):
            await leases.open("agent-1", "c1")
        book.gate.set()
        await eventually(lambda: ("abandoned", "c1") in book.acts)


@pytest.mark.parametrize(
    ("code", "reason"), [(None, "lost"), (GoAwayCode.KEEPALIVE, "keepalive"), (0, "normal"), (0xBAD, "foreign")]
)
def test_reason_is_one_word_of_ours(code: int | None, reason: str) -> None:
    assert close_reason(code) == reason


async def test_the_end_of_all_comes_behind_those_that_end_for_a_reason_of_their_own() -> None:
    """P11: a drained session's lease says `normal`, however slow the database is."""
    book = Book()
    async with keeping(book) as leases:
        lease = await leases.open("agent-1", "c1")
        book.gate.clear()
        leases.close(lease, "normal")
        ending = asyncio.ensure_future(leases.end("shutdown"))
        await asyncio.sleep(0)
        book.gate.set()
        await ending
    assert book.acts == [("open", "c1"), ("normal", "c1"), ("shutdown", "node-a")]


async def test_the_end_of_all_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_DEADLINE", 0.01)
    book = Book()
    async with keeping(book) as leases:
        lease = await leases.open("agent-1", "c1")
        book.error = AWAY
        leases.close(lease, "normal")
        with pytest.raises(DomainError):
            await leases.end("shutdown")
