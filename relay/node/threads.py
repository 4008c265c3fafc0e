"""A bounded pool of threads for what blocks: the registry and files. Only here does the loop wait for a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from tunnelmesh.common.errors import DomainError

WORKERS: Final = 4
WAITING: Final = 512
"""Calls waiting or running: above it the database is not keeping up, and a queue would only hide that."""
DEADLINE: Final = 10.0
"""Seconds; twice SQLite's busy timeout."""

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs calls in threads; never more than `waiting` at a time, and nobody waits longer than `deadline`."""

    def __init__(self, *, workers: int = WORKERS, waiting: int = WAITING, deadline: float = DEADLINE) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="registry")
        self._waiting = waiting
        self._deadline = deadline
        self.pending = 0
        """Calls that run or wait."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`call(*args, **kwargs)`. Raises what it raises, and DomainError (`overloaded`, `too_slow`); a call that is
        too slow goes on in its thread."""
        future = self._submit(partial(call, *args, **kwargs))
        try:
            # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with the result.
            async with asyncio.timeout(self._deadline):
                return await asyncio.shield(future)
        except TimeoutError:
            raise DomainError("too_slow", f"no answer from the database within {self._deadline:g} s") from None

    async def run_to_end(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Like `run`, for a call whose result may not be lost: waits for as long as it takes."""
        return await asyncio.shield(self._submit(partial(call, *args, **kwargs)))

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        if self.pending >= self._waiting:
            raise DomainError("overloaded", f"{self.pending} calls wait for the database")
        self.pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: asyncio.Future[T]) -> None:
        self.pending -= 1
        # Who left early does not hear of a failure; it must not be reported as one that nobody looked at.
        if not future.cancelled():
            future.exception()

    def close(self) -> None:
        """Start nothing more. Calls that run are not waited for: each is bounded by the database's own timeouts."""
        self._pool.shutdown(wait=False, cancel_futures=True)
