"""Reaching a target: every address of a name, one bound for all of it, nothing left behind."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from relay.demo.ports import LOOPBACK, free_ports
from relay.net import target
from relay.net.engine import Engine
from relay.net.target import TargetDialer
from relay.protocol.problem import Problem
from tests.support.target import deaf_port

CLOSED_PORT = free_ports(1)[0]
Answer = socket.socket | Problem


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        sock.listen()
        yield sock


async def reach(dialer: TargetDialer, host: str, port: int) -> Answer:
    """What a dial gives, once."""
    done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    dialer.dial(host, port, done.set_result)
    answer = await asyncio.wait_for(done, 10)
    await dialer.close()
    assert dialer.pending == 0
    return answer


def places(*ports: int) -> Callable[[str, int], list[Any]]:
    """A name that has these ports of this host for addresses, in order."""
    return lambda host, port: [(socket.AF_INET, (LOOPBACK, each)) for each in ports]


@pytest.mark.parametrize("host", [LOOPBACK, "localhost"])
async def test_reached(engine: Engine, listening: socket.socket, host: str) -> None:
    """`localhost` is ::1 first on most machines, and most services listen on 127.0.0.1 alone."""
    sock = await reach(TargetDialer(engine), host, listening.getsockname()[1])
    assert isinstance(sock, socket.socket)
    with sock:
        assert sock.getpeername() == listening.getsockname()
        assert not sock.getblocking()


async def test_refused(engine: Engine) -> None:
    answer = await reach(TargetDialer(engine), LOOPBACK, CLOSED_PORT)
    assert answer == Problem(502, "unreachable", f"{LOOPBACK}:{CLOSED_PORT}: Connection refused")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".example"])
async def test_name_that_is_none(engine: Engine, host: str) -> None:
    answer = await reach(TargetDialer(engine), host, 80)
    assert isinstance(answer, Problem)
    assert (answer.status, answer.code) == (502, "unreachable")
    assert f"{host} cannot be resolved" in answer.detail


async def test_no_answer(engine: Engine) -> None:
    with deaf_port() as port:
        answer = await reach(TargetDialer(engine, timeout=0.1), LOOPBACK, port)
    assert answer == Problem(504, "timeout", f"{LOOPBACK}:{port}: no answer within 0.1 s")


async def test_next_address_after_one_that_refuses_and_one_that_is_silent(
    engine: Engine, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with deaf_port() as silent:
        monkeypatch.setattr(target, "_addresses", places(CLOSED_PORT, silent, listening.getsockname()[1]))
        sock = await reach(TargetDialer(engine, timeout=0.3), "service.example", 80)
    assert isinstance(sock, socket.socket)
    with sock:
        assert sock.getpeername() == listening.getsockname()


async def test_last_address_says_why(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with deaf_port() as silent:
        monkeypatch.setattr(target, "_addresses", places(silent, CLOSED_PORT))
        answer = await reach(TargetDialer(engine, timeout=0.2), "service.example", 80)
    assert answer == Problem(502, "unreachable", f"{LOOPBACK}:{CLOSED_PORT}: Connection refused")


async def test_out_of_descriptors(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", fail)
        answer = await reach(TargetDialer(engine), LOOPBACK, 80)
    assert answer == Problem(502, "unreachable", f"{LOOPBACK}:80: Too many open files")


async def test_above_the_limit(engine: Engine) -> None:
    dialer = TargetDialer(engine, limit=1)
    with deaf_port() as port:
        dialer.dial(LOOPBACK, port, lambda _: None)
        assert await reach(dialer, LOOPBACK, port) == Problem(503, "busy", "1 dials are under way already")


class Resolver:
    """A name server that answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.told = threading.Event(), threading.Event()

    def __call__(self, host: str, port: int) -> list[Any]:
        self.asked.set()
        assert self.told.wait(10)
        return [(socket.AF_INET, (LOOPBACK, CLOSED_PORT))]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver()
    monkeypatch.setattr(target, "_addresses", made)
    yield made
    made.told.set()


async def test_name_that_nobody_answers_for(engine: Engine, resolver: Resolver) -> None:
    answer = await reach(TargetDialer(engine, timeout=0.05), "service.example", 80)
    assert answer == Problem(504, "timeout", "service.example was not resolved within 0.05 s")


async def test_given_up_while_connecting_and_while_resolving(engine: Engine, resolver: Resolver) -> None:
    dialer, heard = TargetDialer(engine), list[object]()
    with deaf_port() as port:
        dialer.dial(LOOPBACK, port, heard.append)
        dialer.dial("service.example", port, heard.append)
        assert dialer.pending == 2
        await asyncio.to_thread(resolver.asked.wait, 10)
        await dialer.close()
    resolver.told.set()
    assert (dialer.pending, heard) == (0, [])


async def test_names_that_nobody_answers_for_leave_the_loops_own_resolver_alone(
    engine: Engine, resolver: Resolver
) -> None:
    """Else an agent whose targets' names hang could not find its server."""
    dialer = TargetDialer(engine)
    for _ in range(100):
        dialer.dial("service.example", 80, lambda _: None)
    assert await engine.loop.getaddrinfo("localhost", 80)
    await dialer.close()


async def test_a_refusal_that_comes_later(engine: Engine) -> None:
    """From another host it takes a while: here the first SYN meets a full backlog, and the next one no listener."""
    with deaf_port() as port:
        answer: asyncio.Future[Answer] = engine.loop.create_future()
        dialer = TargetDialer(engine)
        dialer.dial(LOOPBACK, port, answer.set_result)
    assert await answer == Problem(502, "unreachable", f"{LOOPBACK}:{port}: Connection refused")
    await dialer.close()


async def test_an_answer_that_comes_later(engine: Engine) -> None:
    """Not every target answers before the loop turns."""
    answers: list[Answer] = []
    dialer = TargetDialer(engine)
    with deaf_port() as port:
        dialer.dial(LOOPBACK, port, answers.append)
        (attempt,) = dialer._attempts
        sock = attempt._socket
        assert sock is not None
        attempt._on_writable(sock)  # as if it had answered: the kernel would take a second to ask it again
        assert answers == [sock]
        sock.close()
    assert dialer.pending == 0
    await dialer.close()
