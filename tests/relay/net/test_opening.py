"""The handshake and the heads, awaited."""

import asyncio
import select
import socket
import ssl

import pytest

from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.net.pump import RESET_ON_CLOSE
from relay.protocol.errors import BadHead
from relay.protocol.heads import MAX_HEAD
from tests.support.faults import Fickle
from tests.support.loopback import Contexts, pattern, tcp_pair, tls_pair, until

HEAD = b"GET /relay HTTP/1.1\r\nHost: a\r\n\r\n"


async def test_heads_and_body(engine: Engine, contexts: Contexts) -> None:
    client, server = await tls_pair(engine, contexts)
    await client.send(HEAD + b"bo")
    assert await server.read_head() == HEAD
    await client.send(b"dy and more")
    assert await server.read_body(4) == b"body"
    await server.send(b"HTTP/1.1 200 OK\r\n\r\n")
    assert await client.read_head() == b"HTTP/1.1 200 OK\r\n\r\n"
    client.abort()
    server.abort()


async def test_only_tls_1_3_without_tickets(engine: Engine, contexts: Contexts) -> None:
    """Unread tickets would turn the close of a client that only writes into a reset (performance.md, section 6)."""
    client, server = await tls_pair(engine, contexts)
    await server.send(HEAD)
    await client.read_head()
    assert client._socket.version() == "TLSv1.3"
    session = client._socket.session
    assert session is None or not session.has_ticket
    client.abort()
    server.abort()


async def test_both_certificates_are_seen(engine: Engine, contexts: Contexts) -> None:
    client, server = await tls_pair(engine, contexts)
    assert client.peer_certificate() == ssl.PEM_cert_to_DER_cert(contexts.pair.cert_pem.decode())
    assert server.peer_certificate() is not None
    client.abort()
    server.abort()


@pytest.mark.parametrize("act", ["says goodbye", "speaks", "is reset"])
async def test_a_caller_who_does_not_wait_is_noticed(engine: Engine, contexts: Contexts, act: str) -> None:
    client, server = await tls_pair(engine, contexts)
    await client.send(HEAD)
    await server.read_head()
    server.check_waiting()
    if act == "says goodbye":
        client.close()
    elif act == "speaks":
        await client.send(b"early")
    else:
        client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        client.abort()
    with pytest.raises(ConnectionError):
        server.check_waiting()
    client.abort()
    server.abort()


async def test_a_head_has_a_limit(engine: Engine, contexts: Contexts) -> None:
    client, server = await tls_pair(engine, contexts)
    await client.send(b"x" * MAX_HEAD)
    with pytest.raises(BadHead, match="longer than 16384"):
        await server.read_head()
    client.abort()
    server.abort()


async def test_the_end_of_the_connection(engine: Engine, contexts: Contexts) -> None:
    client, server = await tls_pair(engine, contexts)
    await client.send(HEAD[:10])
    client.abort()
    with pytest.raises(EOFError):
        await server.read_head()
    assert await server.read_body(10) == b"", "what there is of a body; the head's beginning is not part of it"
    server.abort()


async def test_a_large_send_waits_for_the_reader(engine: Engine, contexts: Contexts) -> None:
    client, server = await tls_pair(engine, contexts, tcp_pair(buffer=8192))
    body = pattern(300_000)
    _, received = await asyncio.gather(client.send(body), server.read_body(len(body)))
    assert received == body
    client.abort()
    server.abort()


async def test_each_operation_may_want_the_other_direction(engine: Engine, contexts: Contexts) -> None:
    client, server = await tls_pair(engine, contexts)
    fickle = client._socket = Fickle(client._socket)  # type: ignore[assignment]
    fickle.refuse("send", ssl.SSLWantReadError, ssl.SSLWantWriteError)
    fickle.refuse("recv", ssl.SSLWantWriteError, ssl.SSLWantReadError)
    await server.send(HEAD)
    await client.send(HEAD)
    assert await client.read_head() == HEAD
    assert await server.read_head() == HEAD
    assert not fickle.refusals
    client.abort()
    server.abort()


async def test_cancelled_while_it_waits(engine: Engine, contexts: Contexts) -> None:
    """No watched descriptor is left, whichever direction was waited for."""
    silent, ours = tcp_pair(buffer=4096)
    connection = Connection(engine, ours, contexts.server, server=True)
    handshake = asyncio.create_task(connection.handshake())
    await asyncio.sleep(0)
    handshake.cancel()
    await asyncio.wait([handshake])
    connection.abort()
    silent.close()

    client, server = await tls_pair(engine, contexts, tcp_pair(buffer=4096))
    sending = asyncio.create_task(client.send(bytes(10_000_000)))
    await until(lambda: not select.select([], [client._fd], [], 0)[1])
    sending.cancel()
    await asyncio.wait([sending])
    client.abort()
    server.abort()


async def test_aborted_while_somebody_waits(engine: Engine, contexts: Contexts) -> None:
    """The descriptor may be somebody else's when the waiting task ends: it must not be unwatched."""
    silent, ours = tcp_pair()
    connection = Connection(engine, ours, contexts.server, server=True)
    handshake = asyncio.create_task(connection.handshake())
    await asyncio.sleep(0)
    number = connection._fd
    connection.abort()
    one, other = tcp_pair()
    reused = one if one.fileno() == number else other
    assert reused.fileno() == number
    readable = asyncio.Event()
    engine.loop.add_reader(number, readable.set)
    handshake.cancel()
    await asyncio.wait([handshake])
    (other if reused is one else one).send(b"x")
    await readable.wait()
    engine.loop.remove_reader(number)
    for sock in (silent, one, other):
        sock.close()
