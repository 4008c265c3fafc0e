"""One session: how streams begin and end, and everything that can end the session itself."""

import asyncio
import gc
import socket

import pytest

from relay.net.channel import Channel
from relay.net.engine import Engine
from relay.net.heads import HEAD_TIMEOUT
from relay.net.mux import WRITE_STALL, Mux
from relay.net.patience import HALF_CLOSED_IDLE, QUEUE_BUDGET, QUEUE_STALL
from relay.protocol import frames
from relay.protocol.connect import ConnectRequest
from relay.protocol.errors import BadHead, GoAwayCode, LocalError
from relay.protocol.limits import INITIAL_WINDOW, Limits
from relay.protocol.problem import Problem
from tests.support.chain import Chain
from tests.support.faults import Wire
from tests.support.loopback import TARGET, Contexts, End, Recorder, joined, pattern, stream, tcp_pair, until
from tests.support.steps import StepLoop, linked
from tunnelmesh.common.clock import ManualClock

Ends = tuple[End, End]


@pytest.fixture
async def ends(engine: Engine, contexts: Contexts) -> Ends:
    return await joined(engine, contexts)


def tick(*ends: End) -> None:
    """What the engine does once a second."""
    for end in ends:
        end.mux.on_tick(end.mux.engine.now())
    ends[0].mux.engine.settle()


def send(channel: Channel, data: bytes) -> None:
    channel.send_bytes(data)
    channel.mux.engine.settle()


class TestOpen:
    async def test_accepted(self, ends: Ends) -> None:
        opened, accepted = await stream(*ends)
        assert isinstance(opened, Channel)
        left, right = Recorder(opened), Recorder(accepted)
        send(opened, b"question")
        send(accepted, b"answer")
        await until(lambda: right.received == b"question" and left.received == b"answer")
        assert ends[0].mux.active == ends[1].mux.active == 1

    async def test_the_request_arrives_as_it_was_made(self, ends: Ends) -> None:
        request = ConnectRequest("::1", 443, "agent-1", "00-" + "a" * 32 + "-" + "b" * 16 + "-01")
        opening = asyncio.create_task(ends[0].open(request))
        channel, received = await ends[1].streams.get()
        assert received == request
        channel.reset()
        ends[1].mux.engine.settle()
        assert isinstance(await opening, Problem)

    async def test_refused_with_its_reason(self, ends: Ends) -> None:
        opening = asyncio.create_task(ends[0].open())
        channel, _ = await ends[1].streams.get()
        problem = Problem(503, "busy", "too many dials", retry_after=3)
        channel.refuse(problem)
        ends[1].mux.engine.settle()
        assert await opening == problem
        await until(lambda: not ends[0].mux.active and not ends[1].mux.active)

    async def test_reset_before_the_answer(self, ends: Ends) -> None:
        opening = asyncio.create_task(ends[0].open())
        channel, _ = await ends[1].streams.get()
        channel.reset()
        ends[1].mux.engine.settle()
        problem = await opening
        assert isinstance(problem, Problem)
        assert problem.code == "reset"

    async def test_no_answer_in_time(self, ends: Ends, clock: ManualClock) -> None:
        opening = asyncio.create_task(ends[0].open(seconds=5))
        channel, _ = await ends[1].streams.get()
        clock.advance(4.9)
        tick(ends[0])
        assert not opening.done()
        clock.advance(0.2)
        tick(ends[0])
        problem = await opening
        assert isinstance(problem, Problem)
        assert problem.code == "timeout"
        await until(lambda: not channel.stream.open)

    async def test_lost_with_the_session(self, ends: Ends) -> None:
        opening = asyncio.create_task(ends[0].open())
        await ends[1].streams.get()
        ends[1].mux.connection.abort()
        problem = await opening
        assert isinstance(problem, Problem)
        assert problem.code == "reset"

    async def test_a_request_that_cannot_be_written_opens_nothing(self, ends: Ends) -> None:
        with pytest.raises(BadHead):
            ends[0].mux.open(ConnectRequest("a", 80, "agent\r\n"), lambda _: None, 5)
        assert ends[0].mux.active == 0

    async def test_a_session_that_drains_opens_nothing(self, ends: Ends) -> None:
        ends[1].mux.session.goaway()
        ends[1].mux.engine.touch(ends[1].mux)
        ends[1].mux.engine.settle()
        await ends[0].draining.wait()
        assert not ends[0].mux.can_open
        with pytest.raises(LocalError):
            ends[0].mux.open(TARGET, lambda _: None, 5)


class TestInbound:
    async def test_a_head_that_does_not_come(self, ends: Ends, clock: ManualClock) -> None:
        """It costs a place in the backlog, so it has a limit in time, however slowly it drips."""
        channel = ends[0].mux._channel()
        recorder = Recorder(channel)
        send(channel, b"CONNECT a:1 HT")
        await until(lambda: ends[1].mux.active == 1)
        clock.advance(HEAD_TIMEOUT - 0.1)
        tick(ends[1])
        send(channel, b"TP/1.1\r\n")
        clock.advance(0.2)
        tick(ends[1])
        await recorder.reset.wait()
        assert ends[1].streams.empty()

    async def test_a_head_that_is_none(self, ends: Ends) -> None:
        channel = ends[0].mux._channel()
        recorder = Recorder(channel)
        send(channel, b"GET / HTTP/1.1\r\n\r\n")
        await recorder.finished.wait()
        assert recorder.received.startswith(b"HTTP/1.1 400 ")

    async def test_an_end_before_the_head(self, ends: Ends) -> None:
        channel = ends[0].mux._channel()
        recorder = Recorder(channel)
        send(channel, b"CONNECT")
        channel.finish()
        channel.mux.engine.settle()
        await recorder.reset.wait()

    async def test_the_257th_unanswered_stream_is_reset_and_counted(self, ends: Ends) -> None:
        """R42."""
        answers: list[Channel | Problem] = []
        for _ in range(257):
            ends[0].mux.open(TARGET, answers.append, 5)
        ends[0].mux.engine.settle()
        await until(lambda: len(answers) == 1)
        assert isinstance(answers[0], Problem)
        assert ends[1].mux.session.refused == 1
        await until(lambda: ends[1].streams.qsize() == 256)


class TestFloods:
    async def test_opened_and_reset_in_a_loop(self, engine: Engine, contexts: Contexts) -> None:
        """R41: closed at the budget, and no more work was done for it than that."""
        client, server = await joined(engine, contexts)
        for _ in range(10_000):
            channel = client.mux._channel()
            channel.send_bytes(TARGET.encode())
            channel.reset()
        engine.settle()
        reason, code = await server.over
        assert code == GoAwayCode.FLOOD, reason
        assert server.streams.qsize() <= Limits().resets + Limits().backlog + 1
        assert (await client.over)[1] == GoAwayCode.FLOOD

    async def test_pings(self, engine: Engine, contexts: Contexts) -> None:
        client, server = await joined(engine, contexts)
        client.mux.session.outbox += frames.pack(frames.PING, frames.SYN, 0, 1) * 5000
        engine.touch(client.mux)
        engine.settle()
        assert (await server.over)[1] == GoAwayCode.FLOOD


class TestSilence:
    async def test_a_black_hole_is_noticed_by_both_sides(
        self, engine: Engine, contexts: Contexts, clock: ManualClock
    ) -> None:
        """P7, R1: 20 s + 15 s, without a FIN."""
        wire = Wire()
        client, server = await joined(engine, contexts, wire.ends)
        await until(lambda: client.mux.session.rtt is not None and server.mux.session.rtt is not None)
        opened, accepted = await stream(client, server)
        recorders = Recorder(opened), Recorder(accepted)
        wire.swallow()
        for _ in range(34):
            clock.advance(1.0)
            tick(client, server)
        assert not client.over.done()
        assert not server.over.done()
        clock.advance(1.0)
        tick(client, server)
        for end, recorder in zip((client, server), recorders, strict=True):
            reason, code = end.over.result()
            assert code == GoAwayCode.KEEPALIVE, reason
            assert recorder.resets == 1
        await wire.close()
        await engine.close()

    async def test_an_idle_session_stays(self, ends: Ends, clock: ManualClock) -> None:
        for _ in range(100):
            clock.advance(1.0)
            tick(*ends)
            await until(lambda: all(end.mux.session.rtt is not None for end in ends))
            await asyncio.sleep(0)
        assert not any(end.mux.closed for end in ends)

    async def test_a_peer_that_talks_and_never_reads(
        self, engine: Engine, contexts: Contexts, clock: ManualClock
    ) -> None:
        """R40: every byte it sends proves that it lives, and it is closed all the same."""
        client, server = await joined(engine, contexts, tcp_pair(buffer=8192))
        opened, accepted = await stream(client, server)
        recorder = Recorder(accepted)
        opened.mux.connection._loop.remove_reader(opened.mux.connection._fd)
        send(accepted, pattern(INITIAL_WINDOW))
        assert server.mux.connection.blocked
        for _ in range(int(WRITE_STALL)):
            clock.advance(1.0)
            client.mux.connection.write(frames.pack(frames.PING, frames.ACK, 0, 99))
            await until(lambda: server.mux.session._keepalive.heard == clock.monotonic())
            tick(server)
            assert not server.over.done()
        clock.advance(2.0)  # the kernel has taken a little at first
        tick(server)
        assert server.over.result()[1] == GoAwayCode.WRITE_STALL
        assert recorder.resets == 1
        client.mux.connection.abort()
        await server.mux.connection.wait_closed()

    async def test_a_half_closed_stream_that_idles(self, ends: Ends, clock: ManualClock) -> None:
        """R5: a service that never answers after the end of the request."""
        opened, accepted = await stream(*ends)
        left, right = Recorder(opened), Recorder(accepted)
        opened.finish()
        opened.mux.engine.settle()
        await right.finished.wait()
        clock.advance(HALF_CLOSED_IDLE - 1)
        ends[1].mux.on_tick(clock.monotonic())
        assert ends[1].mux.active == 1
        clock.advance(2)
        ends[1].mux.on_tick(clock.monotonic())
        ends[1].mux.engine.settle()
        assert right.resets == 1
        await left.reset.wait()

    async def test_stalled_streams_over_the_budget(
        self, engine: Engine, contexts: Contexts, clock: ManualClock
    ) -> None:
        """The longest stalled go first; below the budget and while bytes move nobody goes."""
        client, server = await joined(engine, contexts)
        count = QUEUE_BUDGET // (INITIAL_WINDOW - 64 * 1024) + 2
        pairs = [await stream(client, server) for _ in range(count)]
        readers = [Recorder(opened, greedy=True) for opened, _ in pairs]
        senders = [Recorder(accepted) for _, accepted in pairs]
        for number, (_, accepted) in enumerate(pairs):
            clock.advance(0.01)
            send(accepted, pattern(2 * INITIAL_WINDOW, number))
        await until(lambda: all(len(reader.received) > INITIAL_WINDOW - 100 for reader in readers))
        clock.advance(QUEUE_STALL - 1)
        tick(server)
        assert server.mux.active == count
        clock.advance(2)
        tick(server)
        gone = [sender.resets for sender in senders]
        assert gone == [1] * sum(gone) + [0] * (count - sum(gone))
        assert 0 < sum(gone) < count
        tick(server)
        assert server.mux.active == count - sum(gone)


class TestDrain:
    async def test_open_streams_finish(self, ends: Ends) -> None:
        client, server = ends
        opened, accepted = await stream(client, server)
        recorder = Recorder(opened)
        draining = asyncio.create_task(server.mux.drain(10))
        await client.draining.wait()
        assert not client.mux.can_open
        assert not client.over.done()
        send(accepted, b"the rest")
        accepted.finish()
        server.mux.engine.settle()
        await recorder.finished.wait()
        opened.finish()
        client.mux.engine.settle()
        await draining
        assert recorder.received == b"the rest"
        assert server.over.result() == ("drained", GoAwayCode.NORMAL)
        await client.over
        assert recorder.resets == 0

    async def test_without_streams_at_once(self, ends: Ends) -> None:
        await ends[0].mux.drain(10)
        assert ends[0].over.done()
        await ends[1].over

    async def test_what_a_peer_that_drains_had_open(self, ends: Ends) -> None:
        """The side that was told closes when its last stream has ended."""
        client, server = ends
        opened, accepted = await stream(client, server)
        Recorder(opened)
        Recorder(accepted)
        draining = asyncio.create_task(server.mux.drain(10))
        await client.draining.wait()
        opened.reset()
        client.mux.engine.settle()
        assert (await client.over)[1] == GoAwayCode.NORMAL
        await draining

    async def test_time_is_up(self, ends: Ends) -> None:
        opened, accepted = await stream(*ends)
        left, right = Recorder(opened), Recorder(accepted)
        await asyncio.gather(ends[0].mux.drain(0.01), ends[0].mux.drain(0.02))
        assert left.resets == 1
        await right.reset.wait()
        await ends[0].mux.drain(1)

    async def test_the_last_bytes_have_gone(self, engine: Engine, contexts: Contexts) -> None:
        """A stream may have ended while its bytes still wait for the link: the session is not drained yet."""
        client, server = await joined(engine, contexts, tcp_pair(buffer=8192))
        opened, accepted = await stream(client, server)
        recorder = Recorder(opened)
        opened.finish()
        engine.settle()
        await until(lambda: not accepted.stream.may_receive)
        client.mux.connection._loop.remove_reader(client.mux.connection._fd)
        send(accepted, pattern(200_000))
        accepted.finish()
        engine.settle()
        assert server.mux.connection.blocked
        assert server.mux.active == 0
        draining = asyncio.create_task(server.mux.drain(10))
        await asyncio.sleep(0.01)
        assert not draining.done()
        client.mux.connection._loop.add_reader(client.mux.connection._fd, client.mux.connection._on_readable)
        await recorder.finished.wait()
        assert recorder.received == pattern(200_000)
        await draining


class TestEnd:
    async def test_the_peer_says_why(self, ends: Ends) -> None:
        opened, accepted = await stream(*ends)
        left, right = Recorder(opened), Recorder(accepted)
        ends[1].mux.close(GoAwayCode.TOKEN_REVOKED, "the token was revoked")
        assert right.resets == 1
        reason, code = await ends[0].over
        assert code == GoAwayCode.TOKEN_REVOKED
        assert reason == "the peer closed the session: token_revoked"
        assert left.resets == 1
        ends[1].mux.close(GoAwayCode.NORMAL, "once is enough")
        assert ends[1].over.result() == ("the token was revoked", GoAwayCode.TOKEN_REVOKED)

    async def test_the_connection_is_lost(self, ends: Ends) -> None:
        opened, accepted = await stream(*ends)
        left, right = Recorder(opened), Recorder(accepted)
        ends[1].mux.connection.abort()
        _, code = await ends[0].over
        assert code is None
        assert left.resets == 1
        ends[1].mux.on_lost("aborted by the test")
        assert right.resets == 1

    async def test_a_write_that_fails_in_mid_frame(self, engine: Engine, contexts: Contexts) -> None:
        """R40: every waiter hears of it in one step, from outside the write."""
        client, server = await joined(engine, contexts, tcp_pair(buffer=8192))
        opened, _ = await stream(client, server)
        recorder = Recorder(opened)
        opening = asyncio.create_task(client.open())
        await server.streams.get()
        server.mux.connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.mux.connection._loop.remove_reader(client.mux.connection._fd)
        send(opened, pattern(INITIAL_WINDOW))
        assert client.mux.connection.blocked
        server.mux.connection.abort()
        await client.over
        assert recorder.resets == 1
        assert isinstance(await opening, Problem)

    async def test_nonsense(self, ends: Ends) -> None:
        ends[0].mux.connection.write(b"\xff" * 100)
        reason, code = await ends[1].over
        assert code == GoAwayCode.PROTOCOL_ERROR
        assert "version 255" in reason
        assert (await ends[0].over)[1] == GoAwayCode.PROTOCOL_ERROR

    async def test_a_stream_opened_after_goaway_is_refused(self, ends: Ends) -> None:
        """R40: without telling the owner, who would dial."""
        ends[1].mux.session.goaway()  # and the peer has not heard of it yet
        problem = await ends[0].open()
        assert isinstance(problem, Problem)
        assert ends[1].streams.empty()
        assert ends[1].mux.session.refused == 1


class TestFaultyOwner:
    """A bug in what a stream's owner does ends that stream, and is logged; the session and its other streams go on."""

    @pytest.mark.parametrize("method", ["on_data", "on_finish", "on_tick", "on_reset"])
    async def test_in_a_sink(self, ends: Ends, caplog: pytest.LogCaptureFixture, method: str) -> None:
        bad, good = await stream(*ends), await stream(*ends)
        sinks = [Recorder(channel) for channel in (*bad, *good)]
        setattr(sinks[1], method, fail)
        send(bad[0], b"data")
        bad[0].finish()
        if method == "on_reset":
            bad[0].reset()
        bad[0].mux.engine.settle()
        tick(ends[1])
        await until(lambda: not bad[1].stream.open)
        assert "a bug in an owner" in caplog.text
        send(good[0], b"goes on")
        await until(lambda: sinks[3].received == b"goes on")

    async def test_in_a_feeder(self, ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
        opened, accepted = await stream(*ends)
        left, _ = Recorder(opened), Recorder(accepted)

        class Feeder:
            on_sent = on_writable = fail

        opened.feeder = Feeder()
        opened.wait()
        await left.reset.wait()
        assert "a bug in an owner" in caplog.text
        assert not ends[0].mux.closed

    @pytest.mark.parametrize("error", [LookupError("a bug in an owner"), BadHead("a bug in an owner")])
    async def test_in_on_stream(
        self, engine: Engine, contexts: Contexts, caplog: pytest.LogCaptureFixture, error: Exception
    ) -> None:
        """Also when it looks like the peer's fault: the session did not say so."""
        client, server = await joined(engine, contexts)

        def on_stream(channel: Channel, request: ConnectRequest) -> None:
            raise error

        server.mux._on_stream = on_stream
        assert isinstance(await client.open(), Problem)
        assert not server.mux.closed
        assert "a bug in an owner" in caplog.text

    @pytest.mark.parametrize("callback", ["_on_closed", "_on_drain"])
    async def test_in_a_sessions_owner(self, ends: Ends, caplog: pytest.LogCaptureFixture, callback: str) -> None:
        client, server = ends
        setattr(client.mux, callback, fail)
        await server.mux.drain(1)
        await until(lambda: client.mux.connection.closed)
        assert "a bug in an owner" in caplog.text
        if callback == "_on_closed":
            client.over.set_result(("", None))

    async def test_in_the_session_itself(
        self, ends: Ends, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ends[0].mux.session, "receive", fail)
        await stream_or_end(ends)
        assert ends[0].over.result() == ("internal error", GoAwayCode.INTERNAL_ERROR)
        assert "a bug in an owner" in caplog.text
        assert (await ends[1].over)[1] == GoAwayCode.INTERNAL_ERROR


def fail(*_: object) -> None:
    raise LookupError("a bug in an owner")


async def stream_or_end(ends: Ends) -> None:
    send(ends[1].mux._channel(), TARGET.encode())
    await ends[0].over


class TestReentrancy:
    """What a sink may do while it is being given its bytes."""

    @pytest.mark.parametrize("victim", ["itself", "another", "all"])
    async def test_a_sink_ends_streams(self, ends: Ends, victim: str) -> None:
        client, server = ends
        first, second = await stream(client, server), await stream(client, server)
        sinks = [Recorder(channel) for channel in (*first, *second)]

        def act(buffer: memoryview, start: int, end: int) -> None:
            if victim == "all":
                server.mux.close(GoAwayCode.NORMAL, "closed by a sink")
            else:
                (first if victim == "itself" else second)[1].reset()

        sinks[1].on_data = act  # type: ignore[method-assign]
        first[0].send_bytes(b"one")
        second[0].send_bytes(b"two")
        first[0].send_bytes(b"three")
        client.mux.engine.settle()
        if victim == "itself":
            await sinks[0].reset.wait()
            await until(lambda: sinks[3].received == b"two")
        elif victim == "another":
            await sinks[2].reset.wait()
            assert sinks[3].received == b""
            assert sinks[3].resets == 0, "who resets a stream is not told of it"
        else:
            await client.over
            assert [sink.resets for sink in sinks] == [1, 1, 1, 1]

    async def test_an_answer_opens_the_next_stream(self, ends: Ends) -> None:
        client, server = ends
        answers: list[Channel | Problem] = []
        done = asyncio.Event()

        def answered(answer: Channel | Problem) -> None:
            answers.append(answer)
            if len(answers) < 5:
                client.mux.open(TARGET, answered, 5)
            else:
                done.set()

        server.mux._on_stream = lambda channel, _: channel.accept()
        client.mux.open(TARGET, answered, 5)
        client.mux.engine.settle()
        await done.wait()
        assert all(isinstance(answer, Channel) for answer in answers)


class TestGathering:
    """A lone small frame goes at once; what follows closely goes with what else the turn brings, in one write."""

    def test_small_frames(self) -> None:
        now = 1000.0
        loop = StepLoop()
        engine = Engine(loop, lambda: now)  # type: ignore[arg-type]
        link, _ = linked(engine, size=1 << 20)
        mux = Mux(engine, link, client=True, on_stream=fail, on_closed=fail)  # type: ignore[arg-type]
        mux.start()
        channel = mux._channel()
        written = [len(link.under_way)]

        def say() -> int:
            channel.send_bytes(b"a few bytes")
            engine.settle()
            written.append(len(link.under_way))
            return written[-1] - written[-2]

        now += 1.0
        assert say() == 12 + 11
        assert not loop.soon, "it has cost no turn of the loop"
        assert say() == say() == say() == 0
        assert len(loop.soon) == 1
        loop.call_next()
        assert len(link.under_way) - written[-1] == 3 * (12 + 11)
        now += 1.0
        written.append(len(link.under_way))
        assert say() == 12 + 11


async def test_a_stream_that_has_ended_leaves_no_garbage(engine: Engine, contexts: Contexts) -> None:
    """No cycle is left to the collector, whose pauses would show in everybody's latency."""

    def channels() -> int:
        return sum(type(each) is Channel for each in gc.get_objects())

    chain = await Chain.new(engine, contexts, 2)
    before = channels()
    gc.disable()
    try:
        for reset in (False, True):
            user, service = await chain.connect()
            if reset:
                (stream,) = chain.agent.mux.session.streams.values()
                chain.agent.mux.kill(stream.owner)
                del stream
                engine.settle()
            for sock in (user, service):
                sock.close()
            await until(lambda: not any(end.mux.active for end in chain.ends))
            chain.agent.streams = chain.entry.streams = asyncio.Queue()
        await asyncio.sleep(0)
        assert channels() == before
    finally:
        gc.enable()


async def test_relayed_for_a_stream_that_has_gone(ends: Ends) -> None:
    """A stream that nobody would ever end must not be opened for it."""
    opening = asyncio.create_task(ends[0].open())
    incoming, request = await ends[1].streams.get()
    ends[0].mux.close(GoAwayCode.NORMAL, "")
    await opening
    await ends[1].over
    ends[1].mux.relay(incoming, request)
    assert ends[1].mux.active == 0
