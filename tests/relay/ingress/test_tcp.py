"""A TCP entry by itself: what a user sees while his stream is being opened, refused, or too late."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from relay.demo.ports import LOOPBACK
from relay.ingress.tcp import Answer, TcpEntry
from relay.net.acceptor import bind
from relay.net.channel import Channel
from relay.net.engine import Engine
from relay.protocol.problem import Problem
from tests.support.cluster import eventually
from tests.support.user import connected

FORBIDDEN = Problem(403, "forbidden", "not this one")


@dataclass
class Way:
    """Takes the entry's wishes and keeps them until the test answers."""

    wishes: list[Answer] = field(default_factory=list)
    early: list[bytes] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)

    def open_stream(self, answer: Answer, early: bytes) -> None:
        self.wishes.append(answer)
        self.early.append(early)

    def opened(self) -> None:
        raise AssertionError("no stream is opened here")

    def refused(self, problem: Problem, source: str) -> None:
        self.refusals.append((problem.code, source))


@dataclass
class Served:
    entry: TcpEntry
    way: Way


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    way = Way()
    engine = Engine(asyncio.get_running_loop(), lambda: 0.0)
    entry = TcpEntry(engine, bind(LOOPBACK, 0), open_stream=way.open_stream, watcher=way, connections=2)
    yield Served(entry, way)
    entry.close()


async def test_user_waits_for_his_stream_and_is_reset_when_it_is_refused(served: Served) -> None:
    async with connected(served.entry.port) as user:
        await user.send(b"hello")
        await eventually(lambda: served.way.wishes)
        assert served.entry.active == 1
        served.way.wishes[0](FORBIDDEN)
        with pytest.raises(ConnectionResetError):
            await user.receive(1)
    assert served.way.refusals == [("forbidden", LOOPBACK)]
    assert served.entry.active == 0


@pytest.mark.parametrize(("said", "early"), [(b"", 0), (b"hello", 5), (bytes(5000), 4096)])
async def test_what_a_user_has_said_already_goes_with_the_stream(served: Served, said: bytes, early: int) -> None:
    async with connected(served.entry.port) as user:
        await user.send(said)
        await eventually(lambda: served.way.wishes)
        assert served.way.early == [said[:early]]
        served.way.wishes[0](FORBIDDEN)


async def test_user_who_has_reset_already_gets_no_stream(served: Served) -> None:
    """A reset is told once: whoever reads next sees a clean end, and so would the service."""
    user = socket.create_connection((LOOPBACK, served.entry.port))
    user.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    user.close()
    async with connected(served.entry.port):
        await eventually(lambda: served.way.wishes)
    assert len(served.way.wishes) == served.entry.active == 1
    served.way.wishes[0](FORBIDDEN)


async def test_users_beyond_those_that_wait_for_a_stream_wait_in_the_kernel(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that never accepts must not take the whole backlog of a session that leads to others too."""
    monkeypatch.setattr("relay.ingress.tcp.OPENING", 1)
    port = served.entry.port
    async with connected(port) as first, connected(port) as second:
        await eventually(lambda: served.way.wishes)
        assert len(served.way.wishes) == 1
        served.way.wishes[0](FORBIDDEN)
        with pytest.raises(ConnectionResetError):
            await first.receive(1)
        await eventually(lambda: len(served.way.wishes) == 2)
        served.way.wishes[1](FORBIDDEN)
        with pytest.raises(ConnectionResetError):
            await second.receive(1)


async def test_user_who_has_left_already_is_served_like_others(served: Served) -> None:
    """His end shows again to whoever reads next."""
    async with connected(served.entry.port) as user:
        user.finish()
        await eventually(lambda: served.way.wishes)
        assert served.way.early == [b""]
        served.way.wishes[0](FORBIDDEN)


async def test_more_users_than_allowed_are_refused(served: Served) -> None:
    port = served.entry.port
    async with connected(port), connected(port), connected(port) as third:
        with pytest.raises(ConnectionResetError):
            await third.receive(1)
        assert served.way.refusals == [("busy", LOOPBACK)]
        for answer in served.way.wishes:
            answer(FORBIDDEN)
        assert served.entry.active == 0


async def test_close_resets_who_waits_and_a_late_stream_is_reset_too(served: Served) -> None:
    class Late(Channel):
        def __init__(self) -> None:
            self.resets = 0

        def reset(self) -> None:
            self.resets += 1

    late: Any = Late()
    async with connected(served.entry.port) as user:
        await eventually(lambda: served.way.wishes)
        served.entry.close()
        with pytest.raises(ConnectionResetError):
            await user.receive(1)
        served.way.wishes[0](late)
        assert late.resets == 1
        served.way.wishes[0](FORBIDDEN)
        assert (served.way.refusals, served.entry.active) == ([], 0)
