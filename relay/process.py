"""The process of a daemon: which event loop runs it, how signals end it, what it asks of the machine."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from tunnelmesh.common.errors import DomainError, ExitCode, Invalid, NotFound, Refused

log = logging.getLogger(__name__)

LOOP_VARIABLE: Final = "TUNNELMESH_LOOP"
OPEN_FILES: Final = 1 << 20
"""A stream costs one descriptor at its entry and one at its agent; Debian's soft limit is 1,024."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed, unless TUNNELMESH_LOOP says `asyncio`."""
    if os.environ.get(LOOP_VARIABLE) == "asyncio":
        return asyncio.new_event_loop
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return asyncio.new_event_loop
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_event_loop


Main = Callable[[asyncio.Event], Awaitable[ExitCode]]
"""A daemon's life: ends in good order once the event is set."""


def exit_code(error: DomainError) -> ExitCode:
    """What a daemon that could not start exits with: what it was given is wrong, or something around it is."""
    return ExitCode.REFUSED_CONFIG if isinstance(error, Invalid | NotFound | Refused) else ExitCode.FAILED


def run(main: Main) -> ExitCode:
    """Run `main(stop)` to its end. SIGTERM and SIGINT set `stop`, upon which `main` ends in good order; a second signal
    ends the process at once with 130, and the kernel resets what is still open."""
    raise_file_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_with_signals(main))


async def _with_signals(main: Main) -> ExitCode:
    loop = asyncio.get_running_loop()
    log.info("runs on %s, process %d", type(loop).__module__.partition(".")[0], os.getpid())
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, number, stop)
    return await main(stop)


def _on_signal(number: signal.Signals, stop: asyncio.Event) -> None:
    if stop.is_set():
        log.warning("%s again: ends at once", number.name)
        os._exit(ExitCode.INTERRUPTED)
    log.info("%s: ends in good order; once more ends it at once", number.name)
    stop.set()


def settle_memory() -> None:
    """After start: what lives now lives for ever, so the collector need not look at it again (performance.md, 5)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def raise_file_limit() -> None:
    """Ask for as many open files as the hard limit grants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
