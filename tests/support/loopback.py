"""Sessions inside one process over real TLS on loopback, their owners, and the plain sockets at their ends."""

import asyncio
import socket
import ssl
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from relay.demo.pki import Authority, Pair
from relay.demo.ports import LOOPBACK
from relay.net import tls
from relay.net.channel import NOBODY, Channel
from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.net.heads import attach
from relay.net.mux import Mux
from relay.protocol.connect import ConnectRequest
from relay.protocol.limits import Limits
from relay.protocol.problem import Problem

TARGET = ConnectRequest("target.example", 80)


@dataclass(frozen=True)
class Contexts:
    """The two sides of mutual TLS, and what they were made from."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    authority: Authority
    pair: Pair
    """The server's."""
    ca: Path
    cert: Path
    key: Path

    @classmethod
    def new(cls, folder: Path) -> "Contexts":
        authority = Authority.new("relay CA")
        ca, _ = authority.pair.write(folder, "ca")
        pair = authority.issue("server", dns=("server", "localhost"), ips=(LOOPBACK,))
        cert, key = pair.write(folder, "server")
        server = tls.relay_server_context(ca=ca, cert=cert, key=key)
        client_cert, client_key = authority.issue("client", dns=("client",)).write(folder, "client")
        client = tls.relay_client_context(ca=ca, cert=client_cert, key=client_key)
        return cls(server, client, authority, pair, ca, cert, key)


def tcp_pair(*, buffer: int | None = None) -> tuple[socket.socket, socket.socket]:
    """Two sockets connected over loopback, non-blocking; `buffer` is what the kernel may keep for each, about."""
    with socket.socket() as listening, socket.socket() as one:
        if buffer is not None:
            for sock in (listening, one):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        listening.bind((LOOPBACK, 0))
        listening.listen(1)
        one.connect(listening.getsockname())
        other, _ = listening.accept()
        dialled = socket.socket(fileno=one.detach())
    for sock in (dialled, other):
        sock.setblocking(False)
    return dialled, other


async def tls_pair(
    engine: Engine,
    contexts: Contexts,
    sockets: tuple[socket.socket, socket.socket] | None = None,
    *,
    other: Engine | None = None,
) -> tuple[Connection, Connection]:
    """The dialling and the accepting side, after the handshake; `other` is the accepting side's engine."""
    dialled, accepted = sockets or tcp_pair()
    client = Connection(engine, dialled, contexts.client, server=False, server_name="server")
    server = Connection(other or engine, accepted, contexts.server, server=True)
    await asyncio.gather(client.handshake(), server.handshake())
    return client, server


class End:
    """One end of a session, and what its owner has been told."""

    def __init__(
        self,
        engine: Engine,
        connection: Connection,
        *,
        client: bool,
        on_stream: Callable[[Channel, ConnectRequest], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.streams: asyncio.Queue[tuple[Channel, ConnectRequest]] = asyncio.Queue()
        """What the peer has opened, unless `on_stream` takes it."""
        self.over: asyncio.Future[tuple[str, int | None]] = engine.loop.create_future()
        """How it ended."""
        self.draining = asyncio.Event()
        self.mux = Mux(
            engine,
            connection,
            client=client,
            on_stream=on_stream or (lambda channel, request: self.streams.put_nowait((channel, request))),
            on_closed=lambda _, reason, code: self.over.set_result((reason, code)),
            on_drain=lambda _: self.draining.set(),
            limits=limits,
        )
        self.mux.start()

    async def open(self, request: ConnectRequest = TARGET, seconds: float = 10.0) -> Channel | Problem:
        """Open a stream and wait for its answer."""
        answer: asyncio.Future[Channel | Problem] = self.mux.engine.loop.create_future()
        self.mux.open(request, answer.set_result, seconds)
        self.mux.engine.settle()
        return await answer

    async def accepted(self) -> Channel:
        """The next stream that the peer opens, answered with 200."""
        channel, _ = await self.streams.get()
        channel.accept()
        self.mux.engine.settle()
        return channel


async def joined(
    engine: Engine,
    contexts: Contexts,
    sockets: tuple[socket.socket, socket.socket] | None = None,
    *,
    other: Engine | None = None,
    limits: Limits | None = None,
) -> tuple[End, End]:
    """The two ends of a session: who dialled, who accepted. `other` and `limits` are the accepting side's."""
    dialled, accepted = await tls_pair(engine, contexts, sockets, other=other)
    client = End(engine, dialled, client=True)
    return client, End(other or engine, accepted, client=False, limits=limits)


async def stream(client: End, server: End) -> tuple[Channel, Channel]:
    """A stream that the client has opened and the server has accepted."""
    opened, accepted = await asyncio.gather(client.open(), server.accepted())
    assert isinstance(opened, Channel)
    return opened, accepted


class Recorder:
    """A sink that keeps what comes, and returns its credit unless it is `greedy`."""

    queued = 0

    def __init__(self, channel: Channel, *, greedy: bool = False) -> None:
        self.channel = channel
        self.greedy = greedy
        self.received = bytearray()
        self.finished = asyncio.Event()
        self.reset = asyncio.Event()
        self.resets = 0
        attach(channel, self, NOBODY)

    def on_data(self, buffer: memoryview, start: int, end: int) -> None:
        self.received += buffer[start:end]
        if not self.greedy:
            self.channel.consumed(end - start)

    def on_finish(self) -> None:
        self.finished.set()

    def on_reset(self) -> None:
        self.resets += 1
        self.reset.set()

    def on_tick(self) -> None:
        pass


def pattern(size: int, seed: int = 0) -> bytes:
    """Bytes whose every cut, loss or swap shows: numbers of four bytes, one after the other."""
    return array("I", range(seed, seed + size // 4 + 1)).tobytes()[:size]


async def receive(sock: socket.socket, count: int | None = None) -> bytes:
    """`count` bytes from a plain socket, or all until its end. Raises OSError when it is reset."""
    loop, received = asyncio.get_running_loop(), bytearray()
    while count is None or len(received) < count:
        data = await loop.sock_recv(sock, 65536 if count is None else count - len(received))
        if not data:
            break
        received += data
    return bytes(received)


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until `holds`; the test's own time limit ends what never does."""
    while not holds():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)
