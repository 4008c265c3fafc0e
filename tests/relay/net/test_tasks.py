"""Tasks that are held, and whose failures are seen."""

import asyncio
import gc

import pytest

from relay.net.tasks import Tasks


async def sleep() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("broken")


async def test_a_task_that_nobody_holds_is_not_collected() -> None:
    tasks, done = Tasks(), asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    tasks.spawn(work(), name="work")
    gc.collect()
    await done.wait()
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_a_failure_is_logged_with_the_name(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()
    await asyncio.wait([tasks.spawn(fail(), name="the culprit")])
    await asyncio.sleep(0)
    assert "the culprit" in caplog.text
    assert "ValueError: broken" in caplog.text
    assert not tasks.failed.done()


async def test_the_first_critical_failure_is_told() -> None:
    tasks = Tasks()
    tasks.spawn(fail(), name="one", critical=True)
    tasks.spawn(fail(), name="two", critical=True)
    with pytest.raises(ValueError, match="broken"):
        await tasks.failed
    await tasks.cancel()


async def test_cancel_waits_for_the_ends_and_for_what_they_begin() -> None:
    tasks, ended = Tasks(), []

    async def stubborn() -> None:
        try:
            await sleep()
        finally:
            await asyncio.sleep(0)
            ended.append("stubborn")
            tasks.spawn(sleep(), name="begun at the end")

    tasks.spawn(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    await tasks.cancel()
    assert ended == ["stubborn"]
    assert len(tasks) == 0
    assert tasks.failed.cancelled()


async def test_a_task_may_cancel_all_others() -> None:
    tasks = Tasks()

    async def leader() -> str:
        await tasks.cancel()
        return "went on"

    tasks.spawn(sleep(), name="follower")
    assert await tasks.spawn(leader(), name="leader") == "went on"
