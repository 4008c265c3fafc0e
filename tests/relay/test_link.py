"""When a link dials, waits and dials again (faults.md, R4 and R6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from relay.link import BETWEEN_DIALS, GOOD_SESSION, Down, Ended, Link
from relay.net.backoff import Backoff
from relay.net.dialer import DialFailed
from relay.net.mux import Mux
from relay.protocol.errors import GoAwayCode
from tests.support.sessions import FakeMux, as_mux
from tunnelmesh.common.clock import ManualClock

REFUSED = DialFailed("connect", "connection refused")
FORBIDDEN = DialFailed("upgrade", "refused with 403", permanent=True)
LONG = 1000.0


class Owner:
    """Plays the peer: `outcomes` says what becomes of each dial (an exception, or None for a session)."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)
        self.dials = 0
        self.over: list[Callable[[Ended], None]] = []
        self.pauses: list[float] = []
        self.events: asyncio.Queue[Down | Mux] = asyncio.Queue()
        self.at_connect: Callable[[Callable[[Ended], None]], None] = lambda _: None

    async def connect(self, over: Callable[[Ended], None]) -> Mux:
        self.dials += 1
        outcome = self.outcomes.pop(0) if self.outcomes else None
        await asyncio.sleep(0)
        if outcome is not None:
            raise outcome
        self.at_connect(over)
        self.over.append(over)
        return as_mux(FakeMux())

    def link_up(self, session: Mux) -> None:
        self.events.put_nowait(session)

    def link_down(self, why: Down, pause: float) -> None:
        self.pauses.append(pause)
        self.events.put_nowait(why)

    async def next(self) -> Down | Mux:
        return await asyncio.wait_for(self.events.get(), 10)


@asynccontextmanager
async def linked(owner: Owner, clock: ManualClock, *, jitter: float = 0.0, base: float = 1.0) -> AsyncIterator[Link]:
    link = Link(owner, clock=clock, backoff=Backoff(base=base, cap=LONG), jitter=lambda: jitter)
    task = asyncio.ensure_future(link.run())
    try:
        yield link
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert link.session is None


async def test_dials_until_it_has_a_session() -> None:
    owner = Owner(REFUSED, REFUSED)
    async with linked(owner, ManualClock()) as link:
        assert [await owner.next(), await owner.next()] == [REFUSED, REFUSED]
        assert await owner.next() is link.session
        assert (owner.dials, link.down) == (3, None)


async def test_pause_grows_with_every_failure() -> None:
    owner = Owner(REFUSED, REFUSED, REFUSED)
    clock = ManualClock()
    async with linked(owner, clock, jitter=1.0) as link:
        for _ in range(3):
            await owner.next()
            clock.advance(BETWEEN_DIALS)
            await asyncio.sleep(0)
            assert link.nudge()
        await owner.next()
    assert owner.pauses == [1.0, 2.0, 4.0]


async def test_permanent_refusal_takes_the_slow_lane() -> None:
    owner = Owner(FORBIDDEN)
    async with linked(owner, ManualClock(), jitter=0.5):
        await owner.next()
    assert owner.pauses == [180.0]


@pytest.mark.parametrize(("lasted", "pause"), [(GOOD_SESSION - 1, 2.0), (GOOD_SESSION, 1.0)])
async def test_only_a_good_session_begins_the_backoff_anew(lasted: float, pause: float) -> None:
    owner, clock = Owner(REFUSED), ManualClock()
    async with linked(owner, clock, jitter=1.0, base=1.0) as link:
        await owner.next()
        clock.advance(BETWEEN_DIALS)
        await asyncio.sleep(0)
        link.nudge()
        await owner.next()
        clock.advance(lasted)
        owner.over[0](Ended("lost", None))
        assert await owner.next() == Ended("lost", None)
    assert owner.pauses[-1] == pause


async def test_drain_of_a_good_session_is_followed_by_a_dial_at_once() -> None:
    owner, clock = Owner(), ManualClock()
    async with linked(owner, clock, jitter=1.0):
        await owner.next()
        clock.advance(GOOD_SESSION)
        owner.over[0](Ended("it drains", GoAwayCode.NORMAL))
        await owner.next()
        await owner.next()
    assert (owner.dials, owner.pauses) == (2, [0.0])


async def test_superseded_takes_the_slow_lane() -> None:
    """Two processes with one identity must not throw each other out as fast as they can."""
    owner, clock = Owner(), ManualClock()
    async with linked(owner, clock):
        await owner.next()
        clock.advance(GOOD_SESSION)
        owner.over[0](Ended("superseded", GoAwayCode.SUPERSEDED))
        await owner.next()
    assert owner.pauses == [60.0]


async def test_only_the_first_end_of_a_session_counts() -> None:
    owner = Owner()
    async with linked(owner, ManualClock(), jitter=1.0, base=LONG):
        await owner.next()
        owner.over[0](Ended("it drains", GoAwayCode.NORMAL))
        owner.over[0](Ended("lost", None))
        assert await owner.next() == Ended("it drains", GoAwayCode.NORMAL)
        assert owner.events.empty()


async def test_session_that_ends_while_it_begins_is_never_up() -> None:
    owner = Owner()
    owner.at_connect = lambda over: over(Ended("lost", None))
    async with linked(owner, ManualClock(), jitter=1.0, base=LONG) as link:
        assert await owner.next() == Ended("lost", None)
        assert link.session is None


async def test_surprise_is_reported_and_dialled_again(caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner(ZeroDivisionError("surprise"))
    async with linked(owner, ManualClock()) as link:
        failure = await owner.next()
        assert isinstance(failure, DialFailed)
        assert await owner.next() is link.session
    assert "surprise" in caplog.text


class TestNudge:
    async def test_cuts_a_pause_short(self) -> None:
        owner, clock = Owner(REFUSED), ManualClock()
        async with linked(owner, clock, jitter=1.0, base=LONG) as link:
            await owner.next()
            clock.advance(BETWEEN_DIALS)
            await asyncio.sleep(0)
            assert link.nudge()
            assert await owner.next() is link.session

    async def test_waits_with_everyone_for_a_dial_under_way(self) -> None:
        owner = Owner()
        async with linked(owner, ManualClock()) as link:
            await asyncio.sleep(0)
            assert link.nudge()
            await owner.next()
            assert link.nudge()
        assert owner.dials == 1

    async def test_does_not_hammer(self) -> None:
        owner, clock = Owner(REFUSED), ManualClock()
        async with linked(owner, clock, jitter=1.0, base=LONG) as link:
            await owner.next()
            clock.advance(BETWEEN_DIALS - 0.01)
            assert not link.nudge()

    async def test_does_not_repeat_what_is_refused_for_good(self) -> None:
        owner, clock = Owner(FORBIDDEN), ManualClock()
        async with linked(owner, clock) as link:
            await owner.next()
            clock.advance(BETWEEN_DIALS)
            assert not link.nudge()

    async def test_changed_facts_cut_any_pause_short(self) -> None:
        owner = Owner(FORBIDDEN)
        async with linked(owner, ManualClock()) as link:
            await owner.next()
            link.redial()
            assert await owner.next() is link.session


async def test_cancelled_while_dialling_leaves_nothing() -> None:
    owner = Owner()
    async with linked(owner, ManualClock()):
        await asyncio.sleep(0)
    assert owner.events.empty()
