"""Bytes from a user to a service and back over real TLS: complete, in order, or reset; and nobody waits for another."""

import asyncio
import socket

import pytest

from relay.net.engine import Engine
from relay.protocol.limits import INITIAL_WINDOW
from tests.support.chain import Chain, send
from tests.support.faults import Wire
from tests.support.loopback import Contexts, joined, pattern, receive, tcp_pair, until

MIB = 1024 * 1024


async def exchange(user: socket.socket, service: socket.socket, request: bytes, answer: bytes) -> None:
    """Both directions at once, each with its end."""
    (_, _, heard, answered) = await asyncio.gather(
        send(user, request), send(service, answer), receive(service), receive(user)
    )
    assert heard == request
    assert answered == answer
    user.close()
    service.close()


async def all_is_closed(chain: Chain, connections: int) -> None:
    await until(lambda: len(chain.closed) == 2 * connections)
    await until(lambda: not any(end.mux.active for end in chain.ends))


@pytest.mark.parametrize("hops", [1, 2])
async def test_eight_at_once(engine: Engine, contexts: Contexts, hops: int) -> None:
    chain = await Chain.new(engine, contexts, hops)
    pairs = [await chain.connect() for _ in range(8)]
    await asyncio.gather(
        *(exchange(*pair, pattern(MIB, number), pattern(number * 100_000)) for number, pair in enumerate(pairs))
    )
    await all_is_closed(chain, 8)


@pytest.mark.parametrize("hops", [1, 2])
async def test_the_answer_comes_after_the_end_of_the_request(engine: Engine, contexts: Contexts, hops: int) -> None:
    """R5."""
    chain = await Chain.new(engine, contexts, hops)
    user, service = await chain.connect()
    _, request = await asyncio.gather(send(user, pattern(MIB)), receive(service))
    assert request == pattern(MIB)
    _, answer = await asyncio.gather(send(service, pattern(MIB, 1)), receive(user))
    assert answer == pattern(MIB, 1)
    await all_is_closed(chain, 1)
    user.close()
    service.close()


@pytest.mark.parametrize(
    ("piece", "buffer", "size"), [(1, None, 3000), (500, 2048, 50_000), (5000, 4096, 300_000), (60_000, 8192, MIB)]
)
async def test_on_a_wire_that_passes_little_at_a_time(
    engine: Engine, contexts: Contexts, piece: int, buffer: int | None, size: int
) -> None:
    """TLS records and frames are cut wherever it happens, links block in mid-frame, and so do the plain sockets."""
    wires = [Wire(piece=piece, buffer=buffer, seed=number) for number in range(2)]
    chain = await Chain.new(engine, contexts, 2, *(wire.ends for wire in wires))
    chain.buffer = buffer
    pairs = [await chain.connect() for _ in range(3)]
    await asyncio.gather(*(exchange(*pair, pattern(size, 1), pattern(size // 2, 2)) for pair in pairs))
    await all_is_closed(chain, 3)
    chain.close()
    await engine.close()
    for wire in wires:
        await wire.close()


@pytest.mark.parametrize("room", [6_000, 50_000, 123_456])
async def test_a_connection_that_is_cut_in_mid_frame(engine: Engine, contexts: Contexts, room: int) -> None:
    """P9: what has arrived is right, and both ends are reset; never a clean end."""
    wire = Wire(cut_after=room)
    chain = await Chain.new(engine, contexts, 2, wire.ends)
    user, service = await chain.connect()
    body = pattern(MIB)
    received = bytearray()

    async def read() -> None:
        while data := await asyncio.get_running_loop().sock_recv(service, 10_000):
            received.extend(data)

    results = await asyncio.gather(send(user, body), read(), receive(user), return_exceptions=True)
    assert isinstance(results[1], ConnectionResetError)
    assert isinstance(results[2], ConnectionResetError)
    assert body.startswith(received)
    assert len(received) < len(body)
    await until(lambda: sorted(chain.closed) == ["far", "near"])
    user.close()
    service.close()
    await wire.close()


@pytest.mark.parametrize("hops", [1, 2])
async def test_one_that_never_reads_among_eight(engine: Engine, contexts: Contexts, hops: int) -> None:
    """P10: the others finish, and what waits for the one is bounded by its windows."""
    chain = await Chain.new(engine, contexts, hops)
    chain.buffer = 8192
    stuck, flood = await chain.connect()
    flooding = asyncio.create_task(send(flood, bytes(20 * MIB), finish=False))
    pairs = [await chain.connect() for _ in range(7)]
    await asyncio.gather(*(exchange(*pair, pattern(100_000), pattern(MIB, 1)) for pair in pairs))
    await until(lambda: len(chain.closed) == 14)
    assert not flooding.done()
    for end in chain.ends:
        for stream in end.mux.session.streams.values():
            assert stream.owner.queued <= stream.receive_window.size + INITIAL_WINDOW
    flooding.cancel()
    await asyncio.wait([flooding])
    for sock in (stuck, flood):
        sock.close()


async def test_one_agent_that_takes_nothing_does_not_stop_another(engine: Engine, contexts: Contexts) -> None:
    """A node with two agents behind it, and one session before it."""
    wire = Wire()
    stuck = await Chain.new(engine, contexts, 2, tcp_pair(), wire.ends)
    agent, outward = await joined(engine, contexts)
    working = Chain(engine, stuck.entry, agent)
    flooded, service = await stuck.connect()
    wire.swallow()
    flooding = asyncio.create_task(send(flooded, bytes(20 * MIB), finish=False))
    await until(lambda: any(stream.owner.queued for stream in stuck.node[1].mux.session.streams.values()))
    stuck.node[0].mux._on_stream = outward.mux.relay
    await exchange(*await working.connect(), pattern(2 * MIB), pattern(2 * MIB, 1))
    assert not flooding.done()
    flooding.cancel()
    await asyncio.wait([flooding])
    for sock in (flooded, service):
        sock.close()
    wire.heal()
    stuck.close()
    await engine.close()
    await wire.close()
