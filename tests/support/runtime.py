"""A node's runtime for tests of one part: its own registry, a clock that stands still, no session and no database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from relay.metrics import Metrics
from relay.net.engine import Engine
from relay.net.tasks import Tasks
from relay.node.runtime import Me, Runtime
from relay.node.threads import Threads
from tunnelmesh.common.clock import ManualClock
from tunnelmesh.conf.schema import ServerLimits

ME = Me("node-a", 7)


@asynccontextmanager
async def runtime_with(registry: Any, clock: ManualClock) -> AsyncIterator[Runtime]:
    """`registry` needs only the methods that the part under test calls."""
    tasks, threads = Tasks(), Threads()
    yield Runtime(
        me=ME,
        engine=Engine(asyncio.get_running_loop(), clock.monotonic),
        tasks=tasks,
        threads=threads,
        registry=registry,
        clock=clock,
        limits=ServerLimits(),
        metrics=Metrics(),
    )
    await tasks.cancel()
    threads.close()
