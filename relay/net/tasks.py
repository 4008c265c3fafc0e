"""Supervised tasks: each is held, named, and its failure is logged or ends the process, never lost (faults.md, R38)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class Tasks:
    """The tasks of one owner. `failed` is set to the exception of the first critical task that fails."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str, critical: bool = False) -> asyncio.Task[Any]:
        """Run `coroutine` in a task that this object holds."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._critical_done if critical else self._done)
        return task

    async def cancel(self) -> None:
        """Cancel every task, and those that a task starts while it ends, and wait until all have ended. A task of its
        own may call this; it goes on."""
        while pending := self._tasks - {asyncio.current_task()}:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)
        if not self.failed.done():
            self.failed.cancel()

    def _done(self, task: asyncio.Task[Any]) -> BaseException | None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("task %s failed", task.get_name(), exc_info=error)
        return error

    def _critical_done(self, task: asyncio.Task[Any]) -> None:
        error = self._done(task)
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)
