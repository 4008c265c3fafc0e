"""Two streams joined in a node: order, ends and credit, each hop its own."""

import asyncio

import pytest

from relay.net.channel import Channel
from relay.net.engine import Engine
from relay.net.splice import splice
from relay.protocol.limits import INITIAL_WINDOW
from relay.protocol.problem import Problem
from tests.support.chain import Chain
from tests.support.loopback import TARGET, Contexts, Recorder, joined, pattern, stream, tcp_pair, until


def send(channel: Channel, data: bytes, *, finish: bool = False) -> None:
    channel.send_bytes(data)
    if finish:
        channel.finish()
    channel.mux.engine.settle()


async def middle(engine: Engine, contexts: Contexts) -> tuple[Channel, Channel, Channel, Channel]:
    """Outer, inner, inner, outer: the two inner ones are to be joined."""
    left, right = await stream(*await joined(engine, contexts)), await stream(*await joined(engine, contexts))
    return left[0], left[1], right[0], right[1]


async def test_both_ways_and_both_ends(engine: Engine, contexts: Contexts) -> None:
    one, two, three, four = await middle(engine, contexts)
    splice(two, three)
    left, right = Recorder(one), Recorder(four)
    send(one, pattern(100_000), finish=True)
    await right.finished.wait()
    assert right.received == pattern(100_000)
    assert not left.finished.is_set()
    send(four, pattern(1000, 7), finish=True)
    await left.finished.wait()
    assert left.received == pattern(1000, 7)
    assert left.resets == right.resets == 0
    await until(lambda: not any(channel.stream.open for channel in (one, two, three, four)))


async def test_what_came_before_goes_first(engine: Engine, contexts: Contexts) -> None:
    """Bytes and the end that came behind the heads, from both sides."""
    one, two, three, four = await middle(engine, contexts)
    left, right = Recorder(one), Recorder(four)
    send(one, b"from the left", finish=True)
    send(four, b"from the right", finish=True)
    await until(lambda: not two.stream.may_receive and not three.stream.may_receive)
    splice(two, three)
    engine.settle()
    await asyncio.gather(left.finished.wait(), right.finished.wait())
    assert (left.received, right.received) == (b"from the right", b"from the left")


@pytest.mark.parametrize("end", [0, 3])
async def test_a_reset_goes_through(engine: Engine, contexts: Contexts, end: int) -> None:
    channels = await middle(engine, contexts)
    splice(channels[1], channels[2])
    left, right = Recorder(channels[0]), Recorder(channels[3])
    channels[end].reset()
    engine.settle()
    await (right if end == 0 else left).reset.wait()
    await until(lambda: not any(channel.stream.open for channel in channels))


async def test_a_lost_session_resets_the_other_side(engine: Engine, contexts: Contexts) -> None:
    one, two, three, four = await middle(engine, contexts)
    splice(two, three)
    Recorder(one)
    right = Recorder(four)
    one.mux.connection.abort()
    one.mux.on_lost("cut")
    await right.reset.wait()


async def test_two_streams_of_one_session(engine: Engine, contexts: Contexts) -> None:
    """The frame that has just been received is sent in place, on the connection that it came from."""
    ends = await joined(engine, contexts)
    first, second = await stream(*ends), await stream(*ends)
    splice(first[1], second[1])
    left, right = Recorder(first[0]), Recorder(second[0])
    for number in range(20):
        send(first[0], pattern(10_000, number))
        send(second[0], pattern(10, number))
    first[0].finish()
    second[0].finish()
    engine.settle()
    await asyncio.gather(left.finished.wait(), right.finished.wait())
    assert right.received == b"".join(pattern(10_000, number) for number in range(20))
    assert left.received == b"".join(pattern(10, number) for number in range(20))


async def test_credit_is_returned_for_what_has_been_sent_on(engine: Engine, contexts: Contexts) -> None:
    """A reader that never reads stops its writer after two windows, one for each hop, and no byte more."""
    one, two, three, four = await middle(engine, contexts)
    splice(two, three)
    right = Recorder(four, greedy=True)
    Recorder(one)
    send(one, bytes(10 * INITIAL_WINDOW))
    window = two.stream.receive_window
    await until(lambda: not window.credit)
    assert window.credit + window.unreturned + three.queued == window.size
    # It reads again: everything arrives.
    right.greedy = False
    four.consumed(len(right.received))
    four.mux.engine.settle()
    await until(lambda: len(right.received) == 10 * INITIAL_WINDOW)
    assert not three.queued


async def test_our_own_head_is_nobodys_credit(
    engine: Engine, contexts: Contexts, caplog: pytest.LogCaptureFixture
) -> None:
    """The head of the outgoing stream waits for a blocked link: its bytes were never received from the other side."""
    front, (agent, node) = await joined(engine, contexts), await joined(engine, contexts, tcp_pair(buffer=8192))
    opened, _ = await stream(agent, node)
    Recorder(opened)
    connection = agent.mux.connection
    connection._loop.remove_reader(connection._fd)
    filler = node.mux._channel()
    filler.send_bytes(TARGET.encode() + bytes(200_000))
    assert node.mux.connection.blocked
    node.mux._turns.owed = True  # nothing may overtake
    opening = asyncio.create_task(front[0].open())
    incoming, request = await front[1].streams.get()
    node.mux.relay(incoming, request)
    outgoing = next(reversed(node.mux.session.streams.values())).owner
    assert outgoing.queued == len(request.encode())
    unreturned = incoming.stream.receive_window.unreturned
    connection._loop.add_reader(connection._fd, connection._on_readable)
    while (served := await agent.streams.get())[0].stream.id != outgoing.stream.id:
        pass
    assert incoming.stream.receive_window.unreturned == unreturned
    served[0].accept()
    agent.mux.engine.settle()
    channel = await opening
    assert isinstance(channel, Channel)
    left, right = Recorder(channel), Recorder(served[0])
    send(channel, pattern(INITIAL_WINDOW), finish=True)
    await right.finished.wait()
    assert right.received == pattern(INITIAL_WINDOW)
    send(served[0], b"answer", finish=True)
    await left.finished.wait()
    assert not caplog.records


async def test_the_head_and_what_was_held_travel_in_one_frame(engine: Engine, contexts: Contexts) -> None:
    front, (agent, node) = await joined(engine, contexts), await joined(engine, contexts)
    pieces: list[int] = []
    agent.mux._on_stream = lambda channel, _: pieces.append(channel.queued)
    front[1].mux._on_stream = node.mux.relay
    front[0].mux.open(TARGET, lambda _: None, 10, b"the user's first bytes")
    engine.settle()
    await until(lambda: bool(pieces))
    assert pieces == [len(b"the user's first bytes")]


async def test_an_end_waits_for_its_queue(engine: Engine, contexts: Contexts) -> None:
    one, two, three, four = await middle(engine, contexts)
    splice(two, three)
    right = Recorder(four, greedy=True)
    Recorder(one)
    body = pattern(INITIAL_WINDOW + 100_000)
    send(one, body, finish=True)
    await until(lambda: not two.stream.may_receive)
    assert three.queued
    assert not right.finished.is_set()
    right.greedy = False
    four.consumed(len(right.received))
    engine.settle()
    await right.finished.wait()
    assert right.received == body


async def test_refused_by_the_agent(engine: Engine, contexts: Contexts) -> None:
    """Its answer passes through the node as bytes."""
    chain = await Chain.new(engine, contexts, 2)
    opening = asyncio.create_task(chain.entry.open())
    channel, _ = await chain.agent.streams.get()
    channel.refuse(Problem(502, "unreachable", "connection refused"))
    engine.settle()
    assert await opening == Problem(502, "unreachable", "connection refused")
    await until(lambda: not any(end.mux.active for end in chain.ends))
