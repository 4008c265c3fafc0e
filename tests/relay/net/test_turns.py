"""Who may send next on a blocked link: nobody starves, and no order of events loses a wake-up."""

import random
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from relay.net.channel import SMALL, Channel
from relay.net.engine import Engine
from relay.net.mux import ROOM, Mux
from relay.net.pump import Pump
from relay.net.turns import Turns
from relay.protocol.connect import ConnectRequest
from tests.support.loopback import TARGET, Recorder, pattern
from tests.support.steps import Link, StepLoop, World


class FakeConnection:
    blocked = False


class TestOrder:
    """Everybody who waits, one frame each, in the order of waiting."""

    def turns(self, *, frames_per_turn: int) -> tuple[StepLoop, FakeConnection, Turns, list[str]]:
        """Whoever is resumed sends a frame and waits again; the link takes so many frames at a time."""
        loop, connection, sent = StepLoop(), FakeConnection(), list[str]()

        def resume(channel: FakeChannel) -> None:
            sent.append(channel.name)
            turns.wait(channel)  # type: ignore[arg-type]
            connection.blocked = len(sent) % frames_per_turn == 0

        engine = Engine(loop, lambda: 0.0)  # type: ignore[arg-type]
        turns = Turns(engine, connection, resume)  # type: ignore[arg-type]
        return loop, connection, turns, sent

    @pytest.mark.parametrize("frames_per_turn", [1, 2, 4, 5])
    def test_round_robin(self, frames_per_turn: int) -> None:
        loop, connection, turns, sent = self.turns(frames_per_turn=frames_per_turn)
        connection.blocked = True
        for name in "abc":
            turns.wait(FakeChannel(name))  # type: ignore[arg-type]
        assert not loop.soon
        while len(sent) < 30:
            connection.blocked = False
            turns.link_is_free()
            while loop.soon:
                loop.call_next()
        assert "".join(sent[:30]) == "abc" * 10

    def test_on_a_free_link_the_next_turn_of_the_loop_is_soon_enough(self) -> None:
        loop, _, turns, sent = self.turns(frames_per_turn=100)
        for name in "ab":
            turns.wait(FakeChannel(name))  # type: ignore[arg-type]
        assert not sent
        assert len(loop.soon) == 1
        loop.call_next()
        assert sent == ["a", "b"]
        assert len(loop.soon) == 1

    def test_owed_is_who_got_nothing(self) -> None:
        _, connection, turns, sent = self.turns(frames_per_turn=1)
        connection.blocked = True
        turns.wait(FakeChannel("a"))  # type: ignore[arg-type]
        turns.link_is_free()
        assert turns.owed
        connection.blocked = False
        turns.link_is_free()
        assert sent == ["a"]
        assert not turns.owed


@dataclass(eq=False)
class FakeChannel:
    name: str
    waiting: bool = True


class TestSmallAndBulk:
    """Two streams of one session whose link takes little at a time."""

    def streams(self) -> tuple[Link, Channel, Channel, Recorder, Recorder]:
        """The link, a bulk and a small stream, and what arrives of them."""
        world = World(0)
        line = Line(world, size=4096)
        channels, recorders = [], []
        line.node._on_stream = lambda channel, _: recorders.append(Recorder(channel))
        for _ in range(2):
            channel = line.entry._channel()
            channel.send_bytes(TARGET.encode())
            channels.append(channel)
        world.run()
        return line.entry.connection, *channels, *recorders  # type: ignore[return-value]

    def step(self, link: Link) -> None:
        """What is under way arrives, both ways, and the kernel takes more."""
        for end in (link, link.peer):
            if end.can_deliver:
                end.deliver(1 << 20)
        while link.engine.loop.soon:  # type: ignore[attr-defined]
            link.engine.loop.call_next()  # type: ignore[attr-defined]
        if link.can_free:
            link.free()

    def test_small_frames_overtake_waiting_bulk(self) -> None:
        link, bulk, small, bulk_sink, small_sink = self.streams()
        bulk.send_bytes(bytes(200_000))
        bulk.send_bytes(bytes(50_000))
        assert link.blocked
        assert bulk.queued
        small.send_bytes(b"urgent")
        while not small_sink.received:
            self.step(link)
        assert len(bulk_sink.received) < 210_000

    def test_small_frames_do_not_starve_bulk(self) -> None:
        link, bulk, small, bulk_sink, small_sink = self.streams()
        bulk.send_bytes(bytes(200_000))
        bulk.send_bytes(bytes(50_000))
        assert bulk.queued == 50_000
        while len(bulk_sink.received) < 250_000:
            assert len(small_sink.received) < 3 * ROOM
            while room := min(SMALL - 1, small.room(small=True)):
                small.send_bytes(bytes(room))
            self.step(link)

    def test_bulk_does_not_starve_small_frames(self) -> None:
        link, bulk, small, bulk_sink, small_sink = self.streams()
        for number in range(10):
            while not bulk.queued:
                bulk.send_bytes(bytes(100_000))
                self.step(link)
            small.send_bytes(b"urgent")
            before = len(bulk_sink.received)
            while len(small_sink.received) < 6 * (number + 1):
                self.step(link)
            assert len(bulk_sink.received) - before < 300_000


class Line:
    """An entry, a node in the middle and an agent, with links of `size` bytes between them."""

    def __init__(self, world: World, *, size: int) -> None:
        self.world = world
        self.services: list[socket.socket] = []
        self.stack = ExitStack()
        one, two = world.link(size=size)
        three, four = world.link(size=size)
        self.entry = self._mux(one, client=True)
        self.node = self._mux(two, client=False, on_stream=self._relay)
        self.outward = self._mux(three, client=False)
        self.agent = self._mux(four, client=True, on_stream=self._serve)
        for mux in (self.entry, self.node, self.outward, self.agent):
            mux.start()

    def _mux(
        self, link: Link, *, client: bool, on_stream: Callable[[Channel, ConnectRequest], None] | None = None
    ) -> Mux:
        return Mux(
            self.world.engine,
            link,  # type: ignore[arg-type]
            client=client,
            on_stream=on_stream or (lambda channel, _: channel.reset()),
            on_closed=lambda _, reason, code: pytest.fail(f"a session has ended: {reason}"),
        )

    def _relay(self, channel: Channel, request: ConnectRequest) -> None:
        self.outward.relay(channel, request)

    def _serve(self, channel: Channel, request: ConnectRequest) -> None:
        ours, theirs = self._pair()
        self.services[request.port - 1] = theirs
        channel.accept()
        Pump(self.world.engine, ours, channel).start()

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        pair = socket.socketpair()
        for sock in pair:
            self.stack.enter_context(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        return pair

    def user(self) -> socket.socket:
        """A user's socket; its service is found under the same number."""
        ours, theirs = self._pair()
        self.services.append(theirs)  # until the agent has one
        number = len(self.services)

        def answered(answer: object) -> None:
            assert isinstance(answer, Channel), answer
            Pump(self.world.engine, ours, answer).start()

        self.entry.open(ConnectRequest(TARGET.host, number), answered, 10)
        self.world.engine.settle()
        return theirs


class Talk:
    """One direction of a connection: sends a text and its end, in pieces, and checks what arrives."""

    def __init__(self, chance: random.Random, source: Callable[[], socket.socket], target: Callable[[], socket.socket]):
        self.source, self.target = source, target
        self.text = pattern(int(2 ** chance.uniform(0, 20)), chance.randrange(10**6))
        self.piece = int(2 ** chance.uniform(4, 16))
        self.sent = 0
        self.finished = False
        self.received = bytearray()
        self.ended = False

    def send(self) -> bool:
        if self.sent < len(self.text):
            try:
                count = self.source().send(self.text[self.sent : self.sent + self.piece])
            except BlockingIOError:
                return False
            self.sent += count
            return True
        if not self.finished:
            self.source().shutdown(socket.SHUT_WR)
            self.finished = True
            return True
        return False

    def receive(self) -> bool:
        try:
            data = self.target().recv(65536)
        except BlockingIOError:
            return False
        if not data and self.ended:
            return False
        self.received += data
        self.ended = not data
        return True


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_order_everything_arrives(seed: int) -> None:
    """Credit comes, links drain, queues fill, ends arrive, in any order: in the end nothing waits any more."""
    world = World(seed)
    line = Line(world, size=int(2 ** world.random.uniform(11, 18)))
    talks: list[Talk] = []
    for number in range(world.random.randint(1, 5)):
        user = line.user()
        ends = (lambda user=user: user), (lambda number=number: line.services[number])
        talks += [Talk(world.random, *ends), Talk(world.random, *reversed(ends))]
    # A service exists once the agent has been reached; until then nothing is sent from its side.
    world.run()
    acts = [act for talk in talks for act in (talk.send, talk.receive)]
    world.run(*acts)
    for talk in talks:
        assert talk.ended
        assert talk.received == talk.text
    assert [mux.active for mux in (line.entry, line.node, line.outward, line.agent)] == [0, 0, 0, 0]
    assert not world.loop.readers
    assert not world.loop.writers
    line.stack.close()
