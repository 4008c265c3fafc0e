"""The bounded pool: results, bounds, and callers who leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from relay.node.threads import Threads
from tests.support.cluster import eventually
from tunnelmesh.common.errors import Conflict, DomainError


class Gate:
    """Holds calls up until it is opened."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def wait(self, result: int = 0) -> int:
        assert self.event.wait(10)
        return result


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.event.set()


async def test_gives_what_the_call_gives() -> None:
    threads = Threads()
    assert await threads.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 7, 0)
    threads.close()


async def test_passes_a_domain_error_on() -> None:
    def refuse() -> None:
        raise Conflict("stale_epoch", "no")

    threads = Threads()
    with pytest.raises(Conflict):
        await threads.run(refuse)
    threads.close()


async def test_nobody_waits_longer_than_the_deadline(gate: Gate) -> None:
    threads = Threads(deadline=0.05)
    with pytest.raises(DomainError, match=r"no answer from the database within 0\.05 s") as refused:
        await threads.run(gate.wait)
    assert refused.value.code == "too_slow"
    threads.close()


async def test_result_that_may_not_be_lost_is_waited_for(gate: Gate) -> None:
    threads = Threads(deadline=0.01)
    waiting = asyncio.ensure_future(threads.run_to_end(gate.wait, 5))
    await asyncio.sleep(0.05)
    gate.event.set()
    assert await waiting == 5
    threads.close()


async def test_refuses_more_than_it_may_hold(gate: Gate) -> None:
    threads = Threads(workers=1, waiting=2)
    held = [asyncio.ensure_future(threads.run(gate.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(DomainError) as refused:
        await threads.run(gate.wait)
    assert refused.value.code == "overloaded"
    gate.event.set()
    await asyncio.gather(*held)
    assert await threads.run(gate.wait, 3) == 3
    threads.close()


async def test_caller_who_leaves_gives_his_place_back_at_the_end_of_the_call(gate: Gate) -> None:
    threads = Threads(workers=1, waiting=1)

    def fail() -> None:
        gate.wait()
        raise ZeroDivisionError  # heard by nobody, and reported as such by nobody

    left = asyncio.ensure_future(threads.run(fail))
    await asyncio.sleep(0.05)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    gate.event.set()
    await eventually(lambda: threads.pending == 0)
    assert await threads.run(gate.wait, 4) == 4
    threads.close()


async def test_cancellation_that_comes_with_the_result_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that had lost it would never end: so a node once hung in its shutdown."""
    threads = Threads()
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(threads, "_submit", lambda _: result)
    running = asyncio.ensure_future(threads.run(int))
    await asyncio.sleep(0)
    result.set_result(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    threads.close()
