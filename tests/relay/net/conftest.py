"""Every test here runs on both event loops, and leaves no task, descriptor or watched descriptor behind."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from relay.net.engine import Engine
from relay.protocol.errors import GoAwayCode
from tests.support.loopback import Contexts
from tunnelmesh.common.clock import ManualClock

try:
    import uvloop
except ImportError:
    uvloop = None

LONGEST_TEST = 20.0


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if uvloop is not None:
        loops["uvloop"] = uvloop.new_event_loop
    return loops


def descriptors() -> dict[str, str]:
    """What this process has open, by number."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        try:
            found[path.name] = str(path.readlink())
        except FileNotFoundError:
            continue  # the directory's own
    return found


def watched(loop: asyncio.AbstractEventLoop) -> int:
    """How many descriptors the loop watches, where it tells."""
    selector = getattr(loop, "_selector", None)
    return len(selector.get_map()) if selector is not None else 0


@pytest.fixture(scope="session", autouse=True)
def _what_is_there_stays() -> None:
    """Makes the collections below quick."""
    gc.collect()
    gc.freeze()


def end_everything() -> None:
    for task in asyncio.all_tasks():
        task.cancel("the test has taken too long")


@pytest.fixture(autouse=True)
async def nothing_is_left(_what_is_there_stays: None) -> AsyncIterator[None]:
    loop, tasks = asyncio.get_running_loop(), asyncio.all_tasks()
    before, watched_before = descriptors(), watched(loop)
    too_late = loop.call_later(LONGEST_TEST, end_everything)
    yield
    too_late.cancel()
    for _ in range(3):  # what was to be called soon
        await asyncio.sleep(0)
    gc.collect()
    left = asyncio.all_tasks() - tasks - {asyncio.current_task()}
    assert {task.get_name() for task in left} == set()
    assert watched(loop) == watched_before
    after = descriptors()
    assert {number: what for number, what in after.items() if number not in before} == {}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(nothing_is_left: None, clock: ManualClock) -> AsyncIterator[Engine]:
    """An engine whose time stands still; its sessions are closed at the end."""
    made = Engine(asyncio.get_running_loop(), clock.monotonic)
    yield made
    for mux in list(made.muxes):
        mux.close(GoAwayCode.NORMAL, "the test is over")
    await made.close()


@pytest.fixture(scope="session")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    return Contexts.new(tmp_path_factory.mktemp("pki"))
