"""What a daemon's process asks of the machine and tells its caller; signals are tested with real processes."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Iterator

import pytest

from relay import process
from tunnelmesh.common.errors import Conflict, DomainError, ExitCode, Invalid, NotFound, Refused


@pytest.mark.parametrize("kind", [Invalid, NotFound, Refused])
def test_what_was_given_is_wrong(kind: type[DomainError]) -> None:
    assert process.exit_code(kind("x", "y")) is ExitCode.REFUSED_CONFIG


@pytest.mark.parametrize("kind", [DomainError, Conflict])
def test_something_around_it_is_wrong(kind: type[DomainError]) -> None:
    assert process.exit_code(kind("x", "y")) is ExitCode.FAILED


class TestLoop:
    def test_plain_when_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(process.LOOP_VARIABLE, "asyncio")
        assert process.loop_factory() is asyncio.new_event_loop

    def test_plain_without_uvloop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(process.LOOP_VARIABLE, raising=False)
        monkeypatch.setitem(sys.modules, "uvloop", None)
        assert process.loop_factory() is asyncio.new_event_loop

    def test_uvloop_where_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        uvloop = pytest.importorskip("uvloop")
        monkeypatch.delenv(process.LOOP_VARIABLE, raising=False)
        assert process.loop_factory() is uvloop.new_event_loop


@pytest.fixture
def file_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_open_files_up_to_the_hard_limit(file_limit: None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    process.raise_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, process.OPEN_FILES), hard)


def test_memory_that_lives_for_ever_is_not_looked_at_again() -> None:
    before = gc.get_threshold()
    try:
        process.settle_memory()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_runs_main_to_its_end(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(process.LOOP_VARIABLE, "asyncio")
    caplog.set_level("INFO")

    async def main(stop: asyncio.Event) -> ExitCode:
        assert not stop.is_set()
        return ExitCode.IDENTITY_CONFLICT

    assert process.run(main) is ExitCode.IDENTITY_CONFLICT
    assert "runs on asyncio" in caplog.text
