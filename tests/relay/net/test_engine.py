"""What sessions share: the clock's tick, the end of a turn, the end of the process."""

import asyncio

import pytest

from relay.net import engine as engine_module
from relay.net.engine import Engine
from relay.protocol.errors import GoAwayCode
from tests.support.loopback import Contexts, Recorder, joined, stream, until
from tunnelmesh.common.clock import ManualClock


async def test_time_goes_by(
    engine: Engine, contexts: Contexts, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every session hears of it, whatever becomes of another one meanwhile."""
    monkeypatch.setattr(engine_module, "TICK", 0.001)
    first = await joined(engine, contexts)
    second = await joined(engine, contexts)
    ticks = [0, 0]
    for number, (client, server) in enumerate((first, second)):
        opened, _ = await stream(client, server)
        sink = Recorder(opened)

        def count(number: int = number) -> None:
            ticks[number] += 1
            raise LookupError("a bug in a sink")

        sink.on_tick = count  # type: ignore[method-assign]
    engine.start()
    await until(lambda: min(ticks) == 1)
    clock.advance(20.1)
    await until(lambda: all(end.mux.session.rtt == 0 for end in (*first, *second)))
    assert not any(end.mux.closed for end in (*first, *second))


async def test_close_waits_for_last_words(engine: Engine, contexts: Contexts) -> None:
    client, server = await joined(engine, contexts)
    client.mux.close(GoAwayCode.SUPERSEDED, "a newer one has come")
    assert client.mux.connection in engine.closing
    await engine.close()
    assert not engine.closing
    assert client.mux.connection.closed
    assert server.over.result()[1] == GoAwayCode.SUPERSEDED


async def test_close_without_start() -> None:
    await Engine(asyncio.get_running_loop(), ManualClock().monotonic).close()
