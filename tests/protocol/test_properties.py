"""Properties: cutting changes nothing, credit is conserved, two machines always end idle or closed, bytes arrive."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from relay.protocol.errors import RemoteError
from relay.protocol.limits import INITIAL_WINDOW, Limits
from relay.protocol.session import Session
from relay.protocol.stream import Stream
from tests.support.wire import DATA, GO_AWAY, PING, WINDOW_UPDATE, Told, Wire, frame, told

# -- any chunking gives the same events --------------------------------------------------------------------------------


@st.composite
def any_frame(draw: st.DrawFn) -> bytes:
    """Mostly legal, on few streams, so that they meet each other."""
    kind = draw(st.sampled_from([DATA, DATA, WINDOW_UPDATE, PING, GO_AWAY]))
    if kind >= PING:
        return frame(kind, draw(st.sampled_from([1, 2])) if kind == PING else 0, 0, draw(st.integers(0, 3)))
    flags = draw(st.sampled_from([0, 0, 0, 1, 1, 2, 4, 4, 5, 6, 8, 10, 3, 12]))
    stream_id = draw(st.integers(1, 8))
    if kind == WINDOW_UPDATE:
        return frame(kind, flags, stream_id, draw(st.sampled_from([0, 1, 1000, 0xFFFF_FFFF])))
    return frame(kind, flags, stream_id, payload=draw(st.binary(max_size=40)))


def outcome(wire: bytes, cuts: list[int]) -> tuple[list[Told], str, bytes, int]:
    """All that comes of `wire` when it is cut at these places."""
    limits = Limits(max_streams=3, backlog=2, resets=0, pings=3, control_bytes=120)
    session = Session(client=True, now=0.0, limits=limits)
    session.finish(session.open(0.0))
    said: list[Told] = []
    error = ""
    for start, end in itertools.pairwise([0, *cuts, len(wire)]):
        try:
            told(session, wire[start:end], said=said)
        except RemoteError as raised:
            error = f"{type(raised).__name__}: {raised}"
    return said, error, bytes(session.outbox), session.refused


@given(st.lists(any_frame(), max_size=12).map(b"".join), st.data())
def test_any_chunking_gives_the_same_events(wire: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire))), label="cuts"))
    whole = outcome(wire, [])
    assert outcome(wire, cuts) == whole
    assert outcome(wire, list(range(len(wire)))) == whole


# -- two machines on a wire --------------------------------------------------------------------------------------------

SIDES = st.sampled_from([0, 1])
SIZES = st.sampled_from([1, 100, 20_000, 150_000, 150_000, 300_000])
LIMITS = st.sampled_from([1, 12, 13, 1000, 1 << 20, 1 << 20, 1 << 20])
FAULTS = st.sampled_from(["none", "none", "none", "cut", "hole", "drain", "kill", "kill"])


class TwoMachines(RuleBasedStateMachine):
    """Two honest ends and a faulty wire, in any order of steps. Whatever happens: what was received is the beginning of
    what was given, no more is sent than was granted, no id is used twice; and once the wire has been left alone, both
    ends are idle, with every byte delivered or its stream reset, or both are closed."""

    @initialize(delay=st.sampled_from([0.0, 0.0, 0.05, 1.0]), small=st.booleans(), fault=FAULTS, at=st.integers(1, 60))
    def begin(self, delay: float, small: bool, fault: str, at: int) -> None:
        limits = Limits(max_streams=3, backlog=2, growth_budget=INITIAL_WINDOW) if small else Limits()
        self.wire = Wire(delay=delay, limits=limits)
        self.fault = fault
        self.fault_at = at
        self.steps = 0

    @property
    def broken(self) -> bool:
        return self.fault in ("cut", "hole") and self.steps >= self.fault_at

    def pick(self, side: int, number: int) -> Stream | None:
        streams = list(self.wire.ends[side].streams.values())
        return streams[number % len(streams)] if streams else None

    @rule(side=SIDES, size=SIZES, filler=st.integers(0, 255), silent=st.booleans())
    def open(self, side: int, size: int, filler: int, silent: bool) -> None:
        end = self.wire.ends[side]
        if end.session.can_open and len(end.streams) < 8:
            stream = end.open(self.wire.now)
            if not silent:
                end.send(stream, bytes([filler]) * size)

    @rule(side=SIDES, number=st.integers(0, 7), size=SIZES, filler=st.integers(0, 255), last=st.booleans())
    def send(self, side: int, number: int, size: int, filler: int, last: bool) -> None:
        stream, end = self.pick(side, number), self.wire.ends[side]
        if stream is not None and stream.may_send and stream.id not in end.finishing:
            end.send(stream, bytes([filler]) * size)
            if last:
                end.finish(stream)

    @rule(side=SIDES, number=st.integers(0, 7))
    def accept(self, side: int, number: int) -> None:
        stream = self.pick(side, number)
        if stream is not None:
            self.wire.ends[side].session.accept(stream)

    @rule(side=SIDES, number=st.integers(0, 7), size=SIZES)
    def consume(self, side: int, number: int, size: int) -> None:
        stream = self.pick(side, number)
        if stream is not None:
            self.wire.ends[side].consume(stream, size, self.wire.now)

    @rule(side=SIDES, written=LIMITS, read=LIMITS)
    def carry(self, side: int, written: int, read: int) -> None:
        self.wire.write(side, written)
        self.wire.read(1 - side, read)

    @rule(side=SIDES, seconds=st.sampled_from([0.0, 0.001, 0.1, 2.0]))
    def pass_time(self, side: int, seconds: float) -> None:
        self.wire.now += seconds
        for end in self.wire.ends:
            end.tick(self.wire.now)
        self.wire.read(side)

    @rule(side=SIDES, number=st.integers(0, 7), room=st.integers(0, 40))
    def let_it_fail(self, side: int, number: int, room: int) -> None:
        """The fault of this run; before its time, nothing."""
        if self.steps < self.fault_at:
            return
        stream, end = self.pick(side, number), self.wire.ends[side]
        match self.fault:
            case "kill" if stream is not None:
                end.kill(stream)
            case "drain" if not end.closed:
                end.goaway()
            case "cut":
                self.wire.cut(room)
            case "hole":
                self.wire.pipes[side].dead = True

    @invariant()
    def a_step_is_over(self) -> None:
        self.steps += 1

    @invariant()
    def credit_is_conserved(self) -> None:
        for end in self.wire.ends:
            for stream in end.session.streams.values():
                window = stream.receive_window
                arriving = end.session._payload_left if end.session._payload_stream is stream else 0
                assert window.credit + window.unreturned + end.held[stream.id] + arriving == window.size
                assert window.size <= end.session.limits.max_window

    @invariant()
    def growth_is_conserved(self) -> None:
        for end in self.wire.ends:
            grown = sum(stream.receive_window.size - INITIAL_WINDOW for stream in end.session.streams.values())
            assert grown + end.session._growth_left == end.session.limits.growth_budget

    @invariant()
    def what_arrives_is_what_was_given(self) -> None:
        for here, there in (self.wire.ends, reversed(self.wire.ends)):
            for stream_id, received in there.received.items():
                assert here.given[stream_id].startswith(received)
                if stream_id in there.finished:
                    assert received == here.given[stream_id]

    def teardown(self) -> None:
        wire = self.wire
        if self.broken and self.fault == "cut":
            wire.cut()
        elif self.broken:
            wire.pipes[0].dead = True
        self.finish_all()
        if self.broken:
            self.wait_for_the_end()
        # Streams that the other side has only just heard of.
        self.finish_all()
        assert not any(end.session.streams for end in wire.ends)
        assert wire.ends[0].closed == wire.ends[1].closed
        for here, there in (wire.ends, reversed(wire.ends)):
            for stream_id, bytes_given in here.given.items():
                complete = stream_id in there.finished and there.received[stream_id] == bytes_given
                assert complete or stream_id in here.reset | there.reset

    def finish_all(self) -> None:
        for end in self.wire.ends:
            for stream in list(end.session.streams.values()):
                if stream.may_send:
                    end.finish(stream)
        self.wire.settle()

    def wait_for_the_end(self) -> None:
        """A cut is seen at once, a black hole within the keepalive's 35 s and the time on the wire."""
        for _ in range(80):
            self.wire.now += 0.5
            for end in self.wire.ends:
                end.tick(self.wire.now)
            self.wire.settle()
        # A dead direction swallows the last words, and the end of the connection with them.
        for end in self.wire.ends:
            if not end.closed:
                assert self.wire.ends[0].closed or self.wire.ends[1].closed
                end.close()


TwoMachines.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_two_machines_always_end_idle_or_closed = TwoMachines.TestCase
