"""Dialling: each stage fails, hangs and is cancelled in turn, and nothing is left (R6)."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from relay.demo.pki import Authority
from relay.demo.ports import LOOPBACK
from relay.net import tls
from relay.net.acceptor import Acceptor, bind
from relay.net.connection import Connection
from relay.net.dialer import Dial, DialFailed, DialTimeouts, PeerMismatch, dial
from relay.net.engine import Engine
from relay.net.listener import Listener
from relay.protocol.problem import Problem
from relay.protocol.upgrade import RELAY, Accepted, UpgradeRequest
from tests.support.loopback import Contexts
from tests.support.target import deaf_port

REQUEST = UpgradeRequest(RELAY, "server", "token", "client", 7)
QUICK = DialTimeouts(connect=0.1, tls=0.1, upgrade=0.1)

Serve = Callable[[Connection, bytes], Awaitable[None]]


def whom(contexts: Contexts, port: int, **changes: Any) -> Dial:
    base = Dial(
        host=LOOPBACK, port=port, context=contexts.client, request=REQUEST, verify=lambda _: None, timeouts=QUICK
    )
    return replace(base, **changes)


@asynccontextmanager
async def server(engine: Engine, contexts: Contexts, serve: Serve) -> AsyncIterator[int]:
    """A door that answers as `serve` says; its port."""
    sockets = bind(LOOPBACK, 0)
    port = int(sockets[0].getsockname()[1])
    listener = Listener(engine, sockets, context=lambda: contexts.server, serve=serve)
    yield port
    await listener.close()


@asynccontextmanager
async def plain(engine: Engine, answer: bytes | None) -> AsyncIterator[int]:
    """A TCP server without TLS: it says `answer` and closes, or says nothing."""
    accepted: list[socket.socket] = []

    def serve(sock: socket.socket, _: str) -> None:
        accepted.append(sock)
        if answer is not None:
            sock.send(answer)
            sock.close()

    acceptor = Acceptor(engine.loop, bind(LOOPBACK, 0), on_accepted=serve)
    yield acceptor.port
    acceptor.close()
    for sock in accepted:
        sock.close()


async def welcome(connection: Connection, head: bytes) -> None:
    await connection.send(Accepted("server", 3).encode() + b"and more")
    connection.close()


async def test_connected(engine: Engine, contexts: Contexts) -> None:
    seen: list[bytes] = []
    async with server(engine, contexts, welcome) as port:
        connection, accepted = await dial(engine, whom(contexts, port, verify=seen.append))
        assert accepted == Accepted("server", 3)
        assert seen == [contexts.pair.certificate.public_bytes(Encoding.DER)]
        assert await connection.read_body(8) == b"and more"
        connection.abort()


class TestConnect:
    async def test_refused(self, engine: Engine, contexts: Contexts) -> None:
        with socket.socket() as free:
            free.bind((LOOPBACK, 0))
            port = free.getsockname()[1]
        await fails(dial(engine, whom(contexts, port)), "connect", "refused")

    async def test_no_answer(self, engine: Engine, contexts: Contexts) -> None:
        with deaf_port() as port:
            await fails(dial(engine, whom(contexts, port)), "connect", "no answer within 0.1 s")

    async def test_no_such_name(self, engine: Engine, contexts: Contexts) -> None:
        await fails(dial(engine, whom(contexts, 1, host="nowhere.invalid")), "connect", r"nowhere\.invalid: ")
        await fails(dial(engine, whom(contexts, 1, host="a" * 64 + ".example")), "connect", "label")

    async def test_the_next_address_has_its_share_of_the_time(self, engine: Engine, contexts: Contexts) -> None:
        """A broken IPv6 path must not eat the time of the IPv4 address."""
        async with server(engine, contexts, welcome) as port:
            with deaf_port() as silent:
                engine.loop = Resolving(engine.loop, (LOOPBACK, silent), (LOOPBACK, port))  # type: ignore[assignment]
                connection, _ = await dial(engine, whom(contexts, port, host="both.example"))
            connection.abort()

    async def test_every_address_says_why(self, engine: Engine, contexts: Contexts) -> None:
        with deaf_port() as silent:
            engine.loop = Resolving(engine.loop, (LOOPBACK, silent), (LOOPBACK, 1))  # type: ignore[assignment]
            await fails(dial(engine, whom(contexts, 1, host="both.example")), "connect", "no answer.*; .*refused")


class TestTls:
    async def test_no_tls_there(self, engine: Engine, contexts: Contexts) -> None:
        async with plain(engine, b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            await fails(dial(engine, whom(contexts, port)), "tls", "(?i)wrong.version|packet")

    async def test_silence(self, engine: Engine, contexts: Contexts) -> None:
        async with plain(engine, None) as port:
            await fails(dial(engine, whom(contexts, port)), "tls", "no handshake within 0.1 s")

    async def test_gone(self, engine: Engine, contexts: Contexts) -> None:
        async with plain(engine, b"") as port:
            await fails(dial(engine, whom(contexts, port)), "tls", ".+")

    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # CPython's wrap_socket, in this one case
    async def test_a_name_that_tls_does_not_take(self, engine: Engine, contexts: Contexts) -> None:
        async with plain(engine, None) as port:
            await fails(dial(engine, whom(contexts, port, server_name=".example")), "tls", "label empty")


class TestVerify:
    async def test_another_ca(self, engine: Engine, contexts: Contexts, tmp_path: Path) -> None:
        other, _ = Authority.new("another CA").pair.write(tmp_path, "other")
        context = tls.agent_client_context(ca=other)
        async with server(engine, contexts, welcome) as port:
            failed = await fails(dial(engine, whom(contexts, port, context=context)), "verify", "self-signed")
        assert failed.permanent

    async def test_another_name(self, engine: Engine, contexts: Contexts) -> None:
        context = tls.agent_client_context(ca=contexts.ca)
        async with server(engine, contexts, welcome) as port:
            to = whom(contexts, port, context=context, server_name="elsewhere.example")
            assert (await fails(dial(engine, to), "verify", "Hostname mismatch")).permanent

    async def test_a_pin(self, engine: Engine, contexts: Contexts) -> None:
        """Nothing is sent before the pin has been compared."""

        def verify(certificate: bytes) -> None:
            if tls.public_key_pin(certificate) not in pins:
                raise PeerMismatch("the server's key has another pin")

        heads: list[bytes] = []

        async def serve(connection: Connection, head: bytes) -> None:
            heads.append(head)
            await welcome(connection, head)

        async with server(engine, contexts, serve) as port:
            to = whom(contexts, port, verify=verify)
            pins = {"sha256:" + "00" * 32}
            assert (await fails(dial(engine, to), "verify", "another pin")).permanent
            assert not heads
            pins.add(contexts.pair.pin)
            connection, _ = await dial(engine, to)
            connection.abort()

    async def test_a_certificate_that_cannot_be_read(self, engine: Engine, contexts: Contexts) -> None:
        """With a pin and no CA the certificate is a stranger's text: whatever is wrong with it is a refusal."""

        def verify(certificate: bytes) -> None:
            tls.public_key_pin(certificate[:100])

        async with server(engine, contexts, welcome) as port:
            assert (
                await fails(dial(engine, whom(contexts, port, verify=verify)), "verify", "cannot be read")
            ).permanent


class TestUpgrade:
    @pytest.mark.parametrize(("status", "permanent"), [(401, True), (403, True), (412, False), (503, False)])
    async def test_refused(self, engine: Engine, contexts: Contexts, status: int, permanent: bool) -> None:
        problem = Problem(status, "some_code", "some reason", retry_after=5)

        async def serve(connection: Connection, head: bytes) -> None:
            connection.close(problem.encode())

        async with server(engine, contexts, serve) as port:
            failed = await fails(dial(engine, whom(contexts, port)), "upgrade", f"{status} some_code: some reason")
        assert failed.problem == problem
        assert failed.permanent is permanent

    async def test_our_certificate_is_rejected(self, engine: Engine, contexts: Contexts) -> None:
        """TLS 1.3: our side of the handshake has ended well by then."""
        context = tls.agent_client_context(ca=contexts.ca)
        async with server(engine, contexts, welcome) as port:
            failed = await fails(dial(engine, whom(contexts, port, context=context)), "upgrade", "our certificate")
        assert not failed.permanent
        assert "certificate required" in str(failed).lower().replace("_", " ")

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (b"", "closed the connection"),
            (b"HTTP/1.1 101 ", "closed the connection"),
            (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not a TunnelMesh server"),
            (b"x" * 20_000, "not a TunnelMesh server"),
            (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "not a TunnelMesh server"),
            (b"HTTP/1.1 404 Not Found\r\ncontent-length: 900\r\n\r\n<html>", "404 refused"),
            (b"HTTP/1.1 404 Not Found\r\ncontent-length: many\r\n\r\n", "not a TunnelMesh server"),
        ],
    )
    async def test_another_answer(self, engine: Engine, contexts: Contexts, answer: bytes, reason: str) -> None:
        async def serve(connection: Connection, head: bytes) -> None:
            connection.close(answer)

        async with server(engine, contexts, serve) as port:
            await fails(dial(engine, whom(contexts, port)), "upgrade", reason)

    async def test_silence(self, engine: Engine, contexts: Contexts) -> None:
        async def serve(connection: Connection, head: bytes) -> None:
            await asyncio.Event().wait()

        async with server(engine, contexts, serve) as port:
            await fails(dial(engine, whom(contexts, port)), "upgrade", "no answer within 0.1 s")

    async def test_half_an_answer(self, engine: Engine, contexts: Contexts) -> None:
        async def serve(connection: Connection, head: bytes) -> None:
            await connection.send(Problem(403, "forbidden").encode()[:-10])
            await asyncio.Event().wait()

        async with server(engine, contexts, serve) as port:
            await fails(dial(engine, whom(contexts, port)), "upgrade", "no answer within 0.1 s")


async def test_cancelled_at_every_step(engine: Engine, contexts: Contexts) -> None:
    """Whatever it waits for, nothing is left: the end of this test looks."""
    async with server(engine, contexts, welcome) as port:
        patient = DialTimeouts(connect=9, tls=9, upgrade=9)
        for steps in range(1000):
            task = asyncio.create_task(dial(engine, whom(contexts, port, host="localhost", timeouts=patient)))
            for _ in range(steps):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        connection, _ = await task
        connection.abort()
    assert steps > 3


async def fails(dialling: Awaitable[object], stage: str, reason: str) -> DialFailed:
    with pytest.raises(DialFailed, match=reason) as caught:
        await dialling
    assert caught.value.stage == stage
    return caught.value


class Resolving:
    """A loop for which every name has these addresses."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *addresses: tuple[str, int]) -> None:
        self._loop = loop
        self._found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

    async def getaddrinfo(self, *_: object, **__: object) -> list[Any]:
        return self._found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)
