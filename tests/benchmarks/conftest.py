"""Watching processes that are not our children end."""

import os
import select
from collections.abc import Iterable, Iterator

import pytest


class Watch:
    """Holds processes by descriptors, which cannot come to mean another process."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def __call__(self, pids: Iterable[int]) -> None:
        self._descriptors += [os.pidfd_open(pid) for pid in pids]

    def all_ended(self, seconds: float = 10.0) -> bool:
        """Whether all of them have ended, waiting for each at most so long."""
        return all(select.select([descriptor], [], [], seconds)[0] for descriptor in self._descriptors)

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch()
    yield watch
    watch.close()
