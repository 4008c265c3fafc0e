"""A plain socket joined with a stream: its two ends, clean or not."""

import asyncio
import socket
import struct

import pytest

from relay.net.engine import Engine
from relay.net.pump import Pump, prepare
from relay.protocol.errors import GoAwayCode
from relay.protocol.limits import INITIAL_WINDOW
from tests.support.chain import Chain, Sockets, send
from tests.support.loopback import Contexts, End, Recorder, joined, pattern, receive, stream, tcp_pair, until


@pytest.fixture
async def chain(engine: Engine, contexts: Contexts) -> Chain:
    return await Chain.new(engine, contexts)


def close(*sockets: socket.socket) -> None:
    for sock in sockets:
        sock.close()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


async def is_reset(sock: socket.socket) -> None:
    with pytest.raises(ConnectionResetError):
        await receive(sock)


class TestCleanEnd:
    async def test_half_close_user_first(self, chain: Chain) -> None:
        """R5: the answer comes after the end of the request."""
        user, service = await chain.connect()
        await send(user, b"question")
        assert await receive(service) == b"question"
        assert not chain.closed
        await send(service, b"answer")
        assert await receive(user) == b"answer"
        await until(lambda: sorted(chain.closed) == ["far", "near"])
        assert chain.entry.mux.active == chain.agent.mux.active == 0
        close(user, service)

    async def test_half_close_service_first(self, chain: Chain) -> None:
        user, service = await chain.connect()
        await send(service, b"banner")
        assert await receive(user) == b"banner"
        await send(user, b"bye")
        assert await receive(service) == b"bye"
        await until(lambda: sorted(chain.closed) == ["far", "near"])
        close(user, service)

    async def test_at_once(self, chain: Chain) -> None:
        user, service = await chain.connect()
        for sock in (user, service):
            sock.shutdown(socket.SHUT_WR)
        assert await asyncio.gather(receive(user), receive(service)) == [b"", b""]
        close(user, service)

    async def test_a_slow_reader_gets_everything(self, chain: Chain) -> None:
        chain.buffer = 4096
        user, service = await chain.connect()
        body = pattern(500_000)
        sending = asyncio.create_task(send(service, body))
        await until(lambda: waiting(chain.entry) > 0)
        assert await receive(user) == body
        user.shutdown(socket.SHUT_WR)
        assert await receive(service) == b""
        await sending
        close(user, service)


def waiting(end: End) -> int:
    """Bytes that the plain sockets at this end have not taken yet."""
    return sum(stream.owner.sink.queued for stream in end.mux.session.streams.values())


class TestUncleanEnd:
    """Whatever goes wrong, the other end sees a reset, and never a clean end."""

    @pytest.mark.parametrize("who", ["user", "service"])
    async def test_one_side_resets(self, chain: Chain, who: str) -> None:
        user, service = await chain.connect()
        await send(user, b"half a", finish=False)
        assert await receive(service, 6) == b"half a"
        killed, other = (user, service) if who == "user" else (service, user)
        reset(killed)
        await is_reset(other)
        await until(lambda: sorted(chain.closed) == ["far", "near"])
        assert chain.entry.mux.active == chain.agent.mux.active == 0
        close(other)

    @pytest.mark.parametrize("who", ["user", "service"])
    async def test_one_side_resets_right_after_its_last_bytes(self, chain: Chain, engine: Engine, who: str) -> None:
        """Both are there when the loop wakes up, and uvloop wakes up once for them."""
        user, service = await chain.connect()
        killed, other = (user, service) if who == "user" else (service, user)
        killed.send(b"last bytes")
        reset(killed)
        assert await receive(other, 10) == b"last bytes"
        tick(engine)
        await is_reset(other)
        await until(lambda: sorted(chain.closed) == ["far", "near"])
        close(other)

    @pytest.mark.parametrize("how", ["lost", "closed"])
    async def test_the_session_ends_in_mid_stream(self, chain: Chain, how: str) -> None:
        user, service = await chain.connect()
        await send(user, b"half a", finish=False)
        assert await receive(service, 6) == b"half a"
        if how == "lost":
            chain.agent.mux.connection.abort()
            chain.agent.mux.on_lost("the test has cut it")
        else:
            chain.agent.mux.close(GoAwayCode.TOKEN_REVOKED, "revoked")
        await asyncio.gather(is_reset(user), is_reset(service))
        close(user, service)

    async def test_after_a_clean_half(self, chain: Chain) -> None:
        """The user has said everything, and the answer is cut: its end must not look clean."""
        user, service = await chain.connect()
        await send(user, b"question")
        assert await receive(service) == b"question"
        await send(service, b"half an ans", finish=False)
        assert await receive(user, 11) == b"half an ans"
        chain.agent.mux.close(GoAwayCode.NODE_DISABLED, "disabled")
        await is_reset(user)
        close(user, service)

    async def test_a_process_that_is_killed(self, chain: Chain) -> None:
        """The kernel closes its sockets as they are: SO_LINGER (1, 0) stands from the first moment."""
        user, near = tcp_pair()
        prepare(near)
        linger = near.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
        assert struct.unpack("ii", linger) == (1, 0)
        near.close()  # as the kernel would
        await is_reset(user)
        close(user)

    async def test_a_service_that_cannot_be_written_to(self, chain: Chain) -> None:
        user, service = await chain.connect()
        reset(service)
        with pytest.raises(ConnectionError):
            await send(user, pattern(50_000_000), finish=False)
        close(user)

    async def test_a_service_that_resets_what_waits_for_it(self, chain: Chain) -> None:
        chain.buffer = 4096
        user, service = await chain.connect()
        sending = asyncio.create_task(send(user, pattern(500_000), finish=False))
        await until(lambda: waiting(chain.agent) > 0)
        reset(service)
        results = await asyncio.gather(sending, receive(user), return_exceptions=True)
        assert any(isinstance(result, ConnectionError) for result in results)
        close(user)

    async def test_a_user_that_takes_no_end(self, chain: Chain) -> None:
        """Half-closing fails when the user has reset already, and nobody has noticed yet."""
        user, service = await chain.connect()
        (channel,) = (each.owner for each in chain.entry.mux.session.streams.values())
        chain.entry.mux.engine.loop.remove_reader(channel.sink._fd)
        reset(user)
        service.shutdown(socket.SHUT_WR)
        await is_reset(service)
        close(service)


class TestWithoutReading:
    """A socket that is not watched does not tell of its peer; the tick asks."""

    async def paused(self, engine: Engine, contexts: Contexts) -> tuple[Sockets, Recorder]:
        client, server = await joined(engine, contexts)
        opened, accepted = await stream(client, server)
        recorder = Recorder(accepted, greedy=True)
        user, near = tcp_pair()
        prepare(near)
        Pump(engine, near, opened).start()
        sending = asyncio.create_task(send(user, bytes(2 * INITIAL_WINDOW)))
        await until(lambda: not opened.stream.send_window)
        sending.cancel()
        await asyncio.wait([sending])
        return (user, near), recorder

    async def test_a_reset_while_paused(self, engine: Engine, contexts: Contexts) -> None:
        (user, near), recorder = await self.paused(engine, contexts)
        await asyncio.sleep(0)
        reset(user)
        tick(engine)
        await recorder.reset.wait()
        assert near.fileno() == -1

    async def test_a_living_one(self, engine: Engine, contexts: Contexts) -> None:
        (user, near), recorder = await self.paused(engine, contexts)
        tick(engine)
        assert not recorder.resets
        assert near.fileno() >= 0
        close(user)

    async def test_a_reset_after_its_end(self, chain: Chain, engine: Engine) -> None:
        user, service = await chain.connect()
        await send(user, b"question")
        assert await receive(service) == b"question"
        reset(user)
        tick(engine)
        await until(lambda: sorted(chain.closed) == ["far", "near"])
        close(service)


def tick(engine: Engine) -> None:
    for mux in list(engine.muxes):
        mux.on_tick(engine.now())
    engine.settle()


class TestStart:
    async def test_on_a_stream_that_has_gone(self, engine: Engine, contexts: Contexts) -> None:
        opened, _ = await stream(*await joined(engine, contexts))
        opened.reset()
        user, near = tcp_pair()
        prepare(near)
        ended: list[bool] = []
        Pump(engine, near, opened, lambda: ended.append(True)).start()
        assert ended == [True]
        await is_reset(user)
        close(user)

    async def test_what_was_held_cannot_be_written(self, engine: Engine, contexts: Contexts) -> None:
        """The socket is closed while the stream is handed over: nothing is armed afterwards."""
        client, server = await joined(engine, contexts)
        opened, accepted = await stream(client, server)
        opened.send_bytes(b"behind the head")
        engine.settle()
        await until(lambda: bool(accepted.queued))
        user, near = tcp_pair()
        prepare(near)
        near.shutdown(socket.SHUT_WR)
        ended: list[bool] = []
        Pump(engine, near, accepted, lambda: ended.append(True)).start()
        engine.settle()
        assert ended == [True]
        assert near.fileno() == -1
        assert server.mux.active == 0
        close(user)

    async def test_a_whole_window_behind_the_head(self, engine: Engine, contexts: Contexts) -> None:
        """All that may come while a target is being dialled, more than one frame, and its end."""
        client, server = await joined(engine, contexts)
        opened, accepted = await stream(client, server)
        recorder = Recorder(opened)
        body = pattern(opened.stream.send_window)
        opened.send_bytes(body)
        opened.finish()
        engine.settle()
        await until(lambda: accepted.queued == len(body) and not accepted.stream.may_receive)
        service, far = tcp_pair()
        prepare(far)
        Pump(engine, far, accepted).start()
        engine.settle()
        assert await receive(service) == body
        await send(service, b"answer")
        await recorder.finished.wait()
        assert recorder.received == b"answer"
        close(service)


class TestFaultyOwner:
    async def test_in_on_closed(self, engine: Engine, contexts: Contexts, caplog: pytest.LogCaptureFixture) -> None:
        client, server = await joined(engine, contexts)
        opened, accepted = await stream(client, server)
        recorder = Recorder(accepted)
        user, near = tcp_pair()
        prepare(near)

        def fail() -> None:
            raise LookupError("a bug in an owner")

        Pump(engine, near, opened, fail).start()
        reset(user)
        await recorder.reset.wait()
        assert "a bug in an owner" in caplog.text
        assert near.fileno() == -1

    @pytest.mark.parametrize("method", ["room", "consumed"])
    async def test_in_the_stream(
        self, chain: Chain, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        """The loop would call it again and again: the socket is still watched, and ready."""
        chain.buffer = 4096
        user, service = await chain.connect()
        sending = asyncio.create_task(send(user, pattern(500_000), finish=False))
        await until(lambda: waiting(chain.agent) > 0)

        def fail(*_: object, **__: object) -> None:
            raise LookupError("a bug in a stream")

        monkeypatch.setattr("relay.net.channel.Channel." + method, fail)
        await is_reset(service)
        # The kernel tells of a reset once, to whoever asks first.
        results = await asyncio.gather(sending, receive(user), return_exceptions=True)
        assert any(isinstance(result, ConnectionError) for result in results)
        assert caplog.text.count("a bug in a stream") < 5
        close(user, service)
