"""The doors: what strangers cost, and that who is welcome comes in (P2, R35)."""

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from relay.demo.pki import Authority
from relay.demo.ports import LOOPBACK
from relay.net import tls
from relay.net.acceptor import bind
from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.net.listener import DoorLimits, Listener
from tests.support.loopback import Contexts, receive, until

HEAD = b"GET /relay HTTP/1.1\r\nHost: a\r\n\r\n"
WELCOME = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


class Guard:
    """Serves a door: says welcome, and keeps count."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.cancelled = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def serve(self, connection: Connection, head: bytes) -> None:
        self.served.append(head)
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        connection.close(WELCOME)


class Door:
    def __init__(self, engine: Engine, contexts: Contexts, guard: Guard, limits: DoorLimits) -> None:
        sockets = bind(LOOPBACK, 0)
        self.address = sockets[0].getsockname()
        self.engine, self.contexts, self.guard = engine, contexts, guard
        self.listener = Listener(engine, sockets, context=lambda: contexts.server, serve=guard.serve, limits=limits)

    @property
    def strangers(self) -> int:
        return len(self.listener._strangers)

    async def knock(self) -> socket.socket:
        """A TCP connection to the door, and no more."""
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, self.address)
        return sock

    async def visitor(self, context: ssl.SSLContext | None = None) -> Connection:
        """A client after the handshake."""
        connection = Connection(self.engine, await self.knock(), context or self.contexts.client, server=False)
        await connection.handshake()
        return connection

    async def come_in(self) -> None:
        """A good client from beginning to end."""
        visitor = await self.visitor()
        await visitor.send(HEAD)
        assert await visitor.read_head() == WELCOME
        visitor.abort()


@pytest.fixture
def guard() -> Guard:
    return Guard()


@asynccontextmanager
async def door(engine: Engine, contexts: Contexts, guard: Guard, **limits: float) -> AsyncIterator[Door]:
    made = Door(engine, contexts, guard, DoorLimits(**limits))  # type: ignore[arg-type]
    yield made
    await made.listener.close()


async def test_who_is_welcome(engine: Engine, contexts: Contexts, guard: Guard) -> None:
    async with door(engine, contexts, guard) as at:
        await asyncio.gather(*(at.come_in() for _ in range(3)))
        await until(lambda: at.strangers == 0)
    assert guard.served == [HEAD] * 3


class TestDeadline:
    """Absolute: bytes do not extend it."""

    async def test_silent(
        self, engine: Engine, contexts: Contexts, guard: Guard, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        async with door(engine, contexts, guard, deadline=0.05) as at:
            sock = await at.knock()
            assert await receive(sock) == b""
            sock.close()
        assert [record.levelno for record in caplog.records] == [logging.INFO]
        assert "no complete request" in caplog.text

    async def test_slow_in_the_handshake(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        async with door(engine, contexts, guard, deadline=0.1) as at:
            sock = await at.knock()
            await drip(sock, b"\x16\x03\x01\x02\x00" + bytes(512))
            sock.close()
            await until(lambda: at.strangers == 0)
        assert not guard.served

    async def test_slow_in_the_head(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        async with door(engine, contexts, guard, deadline=0.2) as at:
            visitor = await at.visitor()
            with pytest.raises((ConnectionError, ssl.SSLEOFError)):
                await drip_forever(visitor)
            visitor.abort()
            await until(lambda: at.strangers == 0)
        assert not guard.served


async def drip(sock: socket.socket, data: bytes) -> None:
    """Send one byte every now and then, until the other side has had enough."""
    loop = asyncio.get_running_loop()
    try:
        for number in range(len(data)):
            await loop.sock_sendall(sock, data[number : number + 1])
            await asyncio.sleep(0.01)
    except OSError:
        pass


async def drip_forever(connection: Connection) -> None:
    while True:
        await connection.send(b"G")
        await asyncio.sleep(0.01)


class TestFailing:
    async def test_plain_http(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        async with door(engine, contexts, guard) as at:
            sock = await at.knock()
            await asyncio.get_running_loop().sock_sendall(sock, HEAD)
            assert await receive(sock) != HEAD  # at most a TLS alert
            sock.close()
            await until(lambda: at.strangers == 0)

    @pytest.mark.parametrize(("who", "alert"), [("nobody", "certificate.required"), ("a stranger", "unknown.ca")])
    async def test_the_alert_says_why(
        self, engine: Engine, contexts: Contexts, guard: Guard, tmp_path: Path, who: str, alert: str
    ) -> None:
        """A door that aborted would reset what it has just said: the caller has sent its request already."""
        context = tls.agent_client_context(ca=contexts.ca)
        context.check_hostname = False
        if who == "a stranger":
            context.load_cert_chain(*Authority.new("other CA").issue("client").write(tmp_path, "stranger"))
        async with door(engine, contexts, guard) as at:
            visitor = await at.visitor(context)
            await visitor.send(HEAD)
            with pytest.raises(ssl.SSLError, match=f"(?i){alert}"):
                await visitor.read_head()
            visitor.abort()
            await until(lambda: at.strangers == 0)
        assert not guard.served

    async def test_gone_before_tls(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        async with door(engine, contexts, guard) as at:
            for _ in range(20):
                sock = socket.create_connection(at.address)  # the loop does not turn
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
            await at.come_in()
            await until(lambda: at.strangers == 0)

    async def test_a_head_that_is_none(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        async with door(engine, contexts, guard) as at:
            visitor = await at.visitor()
            await visitor.send(b"x" * 20_000)
            head = await visitor.read_head()
            assert head.startswith(b"HTTP/1.1 400 ")
            assert json.loads(await visitor.read_body(4096))["code"] == "bad_request"
            visitor.abort()

    async def test_a_context_that_cannot_be_made(
        self, engine: Engine, contexts: Contexts, guard: Guard, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken() -> ssl.SSLContext:
            raise tls.TlsFileError("half a file")

        async with door(engine, contexts, guard) as at:
            at.listener._context = broken
            sock = await at.knock()
            assert await receive(sock) == b""
            sock.close()
            at.listener._context = lambda: contexts.server
            await at.come_in()
        assert "half a file" in caplog.text

    async def test_a_guard_that_fails(
        self, engine: Engine, contexts: Contexts, guard: Guard, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def broken(connection: Connection, head: bytes) -> None:
            raise LookupError("no such thing")

        async with door(engine, contexts, guard) as at:
            at.listener._serve = broken
            visitor = await at.visitor()
            await visitor.send(HEAD)
            with pytest.raises((EOFError, OSError)):
                await visitor.read_head()
            visitor.abort()
        assert "no such thing" in caplog.text


class TestCaps:
    async def test_the_oldest_of_an_address_is_shed_first(
        self, engine: Engine, contexts: Contexts, guard: Guard
    ) -> None:
        async with door(engine, contexts, guard, strangers_per_address=3) as at:
            socks = [await at.knock() for _ in range(5)]
            await until(lambda: at.listener.shed == 2)
            for sock in socks[:2]:
                assert await receive(sock) == b""
            await at.come_in()
            assert at.listener.shed == 3
            for sock in socks:
                sock.close()
            await until(lambda: at.strangers == 0)

    async def test_of_all_addresses(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        async with door(engine, contexts, guard, strangers=2, strangers_per_address=100) as at:
            socks = [await at.knock() for _ in range(4)]
            await until(lambda: at.listener.shed == 2)
            assert at.strangers == 2
            for sock in socks:
                sock.close()

    async def test_shed_before_the_first_step(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        """Who is accepted and shed within one batch has not begun: its socket is closed all the same."""
        async with door(engine, contexts, guard, strangers_per_address=1) as at:
            socks = [socket.create_connection(at.address) for _ in range(30)]  # before the loop turns
            await until(lambda: at.listener.shed == 29)
            for sock in socks[:-1]:
                sock.setblocking(False)
                assert await receive(sock) == b""
            for sock in socks:
                sock.close()

    async def test_five_hundred_silent_ones(self, engine: Engine, contexts: Contexts, guard: Guard) -> None:
        """R35: bounded, and who is welcome still comes in."""
        async with door(engine, contexts, guard) as at:
            socks = [await at.knock() for _ in range(500)]
            await at.come_in()
            assert at.strangers <= 16
            assert at.listener.shed >= 484
            for sock in socks:
                sock.close()
            await until(lambda: at.strangers == 0)

    async def test_a_guard_is_told_when_its_visitor_is_shed(
        self, engine: Engine, contexts: Contexts, guard: Guard
    ) -> None:
        guard.hold.clear()
        async with door(engine, contexts, guard, strangers_per_address=1) as at:
            visitor = await at.visitor()
            await visitor.send(HEAD)
            await until(lambda: bool(guard.served))
            sock = await at.knock()
            await until(lambda: guard.cancelled == 1)
            with pytest.raises((EOFError, OSError)):
                await visitor.read_head()
            visitor.abort()
            sock.close()

    async def test_who_is_refused_counts_until_its_socket_is_closed(
        self, engine: Engine, contexts: Contexts, guard: Guard
    ) -> None:
        """Else each refusal would buy three seconds of a socket, outside the caps."""
        async with door(engine, contexts, guard, strangers_per_address=2) as at:
            lingering = [await at.visitor() for _ in range(2)]
            for visitor in lingering:
                await visitor.send(HEAD)
                assert await visitor.read_head() == WELCOME
            assert at.strangers == 2
            sock = await at.knock()
            await until(lambda: at.listener.shed == 1)
            await until(lambda: len(engine.closing) == 1)
            for visitor in lingering:
                visitor.abort()
            sock.close()


async def test_closing_the_door_cuts_who_stands_there(engine: Engine, contexts: Contexts, guard: Guard) -> None:
    async with door(engine, contexts, guard) as at:
        silent = await at.knock()
        visitor = await at.visitor()
        await until(lambda: at.strangers == 2)
    assert await receive(silent) == b""
    with pytest.raises((EOFError, OSError)):
        await visitor.read_head()
    silent.close()
    visitor.abort()
