"""The data plane of one connection, and its end."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

import pytest

from relay.net import connection as connection_module
from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.protocol.limits import HEADER_SIZE
from tests.support.faults import Fickle
from tests.support.loopback import Contexts, pattern, tcp_pair, tls_pair, until

RESET = b"\1\0\0\0\0\0\0\0"
"""SO_LINGER (1, 0)."""


class Heard:
    """A receiver that keeps what it hears."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.received = bytearray()
        self.writable = 0
        self.lost: list[str] = []
        self.check: Callable[[], bool] = lambda: True

    def on_bytes(self, start: int, end: int) -> None:
        assert start == HEADER_SIZE, "there is room for a header before"
        assert self.check()
        self.received += self.engine.received[start:end]

    def on_writable(self) -> None:
        self.writable += 1

    def on_lost(self, reason: str) -> None:
        self.lost.append(reason)


async def started(
    engine: Engine, contexts: Contexts, *, buffer: int | None = None
) -> tuple[Connection, Heard, Connection, Heard]:
    client, server = await tls_pair(engine, contexts, tcp_pair(buffer=buffer))
    at_client, at_server = Heard(engine), Heard(engine)
    client.start(at_client)
    server.start(at_server)
    return client, at_client, server, at_server


def fill(connection: Connection) -> int:
    """Write until the connection is blocked; how many bytes."""
    written = 0
    while not connection.blocked:
        connection.write(pattern(65536, seed=written))
        written += 65536
    return written


async def test_bytes_both_ways(engine: Engine, contexts: Contexts) -> None:
    client, at_client, server, at_server = await started(engine, contexts)
    body = pattern(1_000_000)
    at_server.check = lambda: server._socket.pending() == 0  # it would not wake the loop
    client.write(body)
    server.write(memoryview(b"short"))
    await until(lambda: at_server.received == body and at_client.received == b"short")
    client.abort()
    await until(lambda: len(at_server.lost) == 1)
    assert server.closed
    assert not at_client.lost, "who aborts is not told"


async def test_what_came_behind_the_head_comes_first(engine: Engine, contexts: Contexts) -> None:
    """Also when more is readable already: uvloop polls before it calls what was to be called soon."""
    client, server = await tls_pair(engine, contexts)
    await client.send(b"GET / HTTP/1.1\r\n\r\n" + b"one ")
    await server.read_head()
    await client.send(b"two")
    await until(lambda: bool(server._socket.pending()) or readable(server._socket))
    heard = Heard(engine)
    server.start(heard)
    await until(lambda: len(heard.received) == 7)
    assert heard.received == b"one two"
    client.abort()
    server.abort()


async def test_started_when_it_has_ended_already(engine: Engine, contexts: Contexts) -> None:
    """The receiver would wait for an end that never comes."""
    client, server = await tls_pair(engine, contexts)
    client.abort()
    heard = Heard(engine)
    client.start(heard)
    assert not heard.lost
    await until(lambda: len(heard.lost) == 1)
    server.abort()


def readable(sock: socket.socket) -> bool:
    try:
        return bool(socket.socket.recv(sock, 1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def test_a_blocked_connection_keeps_the_rest_and_says_when_it_has_gone(
    engine: Engine, contexts: Contexts
) -> None:
    client, server = await tls_pair(engine, contexts, tcp_pair(buffer=8192))
    at_client, at_server = Heard(engine), Heard(engine)
    client.start(at_client)
    written = fill(client)
    client.write(b"and more")
    assert not at_client.writable
    server.start(at_server)
    await until(lambda: at_client.writable == 1)
    assert not client.blocked
    await until(lambda: len(at_server.received) == written + 8)
    assert at_server.received.endswith(b"and more")
    client.abort()
    server.abort()


async def test_reset_while_blocked(engine: Engine, contexts: Contexts) -> None:
    """The write that fails is the one that looks into the bytes that wait; the receiver hears of it all the same."""
    client, server = await tls_pair(engine, contexts, tcp_pair(buffer=8192))
    heard = Heard(engine)
    client.start(heard)
    fill(client)
    client._loop.remove_reader(client._fd)  # so that it is the write that fails
    server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    server.abort()
    await until(lambda: len(heard.lost) == 1)
    assert client.closed
    assert not client.blocked


async def test_reset_while_reading(engine: Engine, contexts: Contexts) -> None:
    client, at_client, server, _ = await started(engine, contexts)
    server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    server.abort()
    await until(lambda: bool(at_client.lost))
    assert client.closed


async def test_reset_right_after_the_last_bytes(engine: Engine, contexts: Contexts) -> None:
    """Both are there when the loop wakes up, and uvloop wakes up once for them."""
    client, _, server, heard = await started(engine, contexts)
    client.write(b"last bytes")
    client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.abort()
    await until(lambda: heard.received == b"last bytes")
    server.on_tick()
    await until(lambda: bool(heard.lost))
    assert server.closed


async def test_what_is_no_tls(engine: Engine, contexts: Contexts) -> None:
    _, at_client, server, _ = await started(engine, contexts)
    socket.socket.send(server._socket, b"this was never encrypted")
    await until(lambda: bool(at_client.lost))
    assert at_client.lost[0].startswith("TLS: ")
    await until(lambda: server.closed)


async def test_a_loss_is_never_told_inside_write(engine: Engine, contexts: Contexts) -> None:
    """Who writes is in the middle of something: the shared frame buffer, a table of streams."""
    client, at_client, server, _ = await started(engine, contexts)
    client._socket.shutdown(socket.SHUT_RDWR)
    client.write(b"x")
    assert client.closed
    assert not at_client.lost
    client.write(b"nothing happens")
    await until(lambda: len(at_client.lost) == 1)
    server.abort()


async def test_reading_may_want_to_write(engine: Engine, contexts: Contexts) -> None:
    """As in a key update. The input is not watched meanwhile: the loop would spin."""
    client, at_client, server, _ = await started(engine, contexts)
    fickle = client._socket = Fickle(client._socket)  # type: ignore[assignment]
    fickle.refuse("read", ssl.SSLWantWriteError)
    server.write(b"hello")
    await until(lambda: not fickle.refusals)
    assert client._reading is False
    await until(lambda: at_client.received == b"hello")
    assert client._reading is True
    assert client._writing is False
    client.abort()
    server.abort()


async def test_writing_may_want_to_read(engine: Engine, contexts: Contexts) -> None:
    client, at_client, server, at_server = await started(engine, contexts)
    fickle = client._socket = Fickle(client._socket)  # type: ignore[assignment]
    fickle.refuse("write", ssl.SSLWantReadError, ssl.SSLWantReadError)
    client.write(b"hello")
    assert client.blocked
    assert client._writing is False
    server.write(b"here")
    await until(lambda: at_client.received == b"here")
    server.write(b" you are")
    await until(lambda: at_server.received == b"hello")
    assert at_client.received == b"here you are"
    assert at_client.writable == 1
    client.abort()
    server.abort()


async def test_writing_fails_when_it_has_read_what_it_wanted(engine: Engine, contexts: Contexts) -> None:
    client, at_client, server, _ = await started(engine, contexts)
    fickle = client._socket = Fickle(client._socket)  # type: ignore[assignment]
    fickle.refuse("write", ssl.SSLWantReadError, ConnectionResetError)
    client.write(b"hello")
    server.write(b"here")
    await until(lambda: at_client.lost == ["as the test wants it"])
    assert at_client.received == b""
    server.abort()


class TestClose:
    @pytest.fixture(autouse=True)
    def _no_last_resort(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A close that only its time limit ends is a failure here."""
        monkeypatch.setattr(connection_module, "CLOSE_TIMEOUT", 60.0)

    async def test_last_words_arrive_from_who_has_not_read_everything(self, engine: Engine, contexts: Contexts) -> None:
        """Unread bytes in a socket that is closed turn its end into a reset, which overtakes the last words."""
        client, _, server, at_server = await started(engine, contexts)
        server.write(bytes(500_000))
        client.close(b"last words")
        client.close(b"are said once")
        await until(lambda: bool(at_server.lost))
        assert at_server.received == b"last words"
        assert at_server.lost == ["the peer closed the connection"]
        await client.wait_closed()

    async def test_while_blocked(self, engine: Engine, contexts: Contexts) -> None:
        client, server = await tls_pair(engine, contexts, tcp_pair(buffer=8192))
        client.start(Heard(engine))
        written = fill(client)
        client.close(b"last words")
        assert client in engine.closing
        heard = Heard(engine)
        server.start(heard)
        await client.wait_closed()
        assert len(heard.received) == written + len(b"last words")
        server.abort()

    async def test_both_at_once(self, engine: Engine, contexts: Contexts) -> None:
        client, at_client, server, at_server = await started(engine, contexts)
        client.close(b"a")
        server.close(b"b")
        await engine.close()
        assert client.closed
        assert server.closed
        assert not at_client.lost
        assert not at_server.lost

    @pytest.mark.parametrize("peer", ["silent", "talking", "never reading"])
    async def test_a_peer_that_does_not_close(
        self,
        engine: Engine,
        contexts: Contexts,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        peer: str,
    ) -> None:
        """R36: closed within the bound, nothing logged above INFO."""
        monkeypatch.setattr(connection_module, "CLOSE_TIMEOUT", 0.1)
        client, server = await tls_pair(engine, contexts, tcp_pair(buffer=8192))
        client.start(Heard(engine))
        if peer == "never reading":
            fill(client)
        talking = asyncio.create_task(talk(server)) if peer == "talking" else None
        client.close(b"last words")
        await client.wait_closed()
        assert client.closed
        assert client not in engine.closing
        if talking is not None:
            await talking
        server.abort()
        assert [record for record in caplog.records if record.levelno > logging.INFO] == []

    async def test_a_peer_that_resets(self, engine: Engine, contexts: Contexts) -> None:
        client, _, server, _ = await started(engine, contexts)
        server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        server.abort()
        client.close(b"last words")
        await client.wait_closed()

    async def test_before_the_handshake(self, engine: Engine, contexts: Contexts) -> None:
        silent, ours = tcp_pair()
        connection = Connection(engine, ours, contexts.server, server=True)
        connection.close()
        assert await asyncio.get_running_loop().sock_recv(silent, 10) == b""
        silent.close()
        await connection.wait_closed()

    async def test_release(self, engine: Engine, contexts: Contexts) -> None:
        """A session keeps its connection; whatever else is left of one goes."""
        client, _, server, _ = await started(engine, contexts)
        client.release()
        assert not client.closed
        client.close()
        client.release()
        assert client.closed
        client.abort()
        server.abort()
        await client.wait_closed()
        await server.wait_closed()


async def talk(connection: Connection) -> None:
    """Send until it fails."""
    sending: Callable[[bytes], Awaitable[None]] = connection.send
    try:
        while True:
            await sending(bytes(1000))
            await asyncio.sleep(0)
    except OSError:
        pass
