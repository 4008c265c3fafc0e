"""Two sessions and a wire between them, in memory: late, in pieces, cut, or dead one way, as the test says.

No socket and no clock: whoever drives it says what time it is. `Witness` reads the wire with a parser of its own, so
that what is checked on it does not rest on the code under test.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from relay.protocol.errors import RemoteError
from relay.protocol.events import (
    CreditReceived,
    DataReceived,
    Event,
    GoAwayReceived,
    StreamFinished,
    StreamOpened,
    StreamReset,
)
from relay.protocol.limits import HEADER_SIZE, INITIAL_WINDOW, Limits
from relay.protocol.session import Session
from relay.protocol.stream import Stream

DATA, WINDOW_UPDATE, PING, GO_AWAY = range(4)
SYN, ACK, FIN, RST = 1, 2, 4, 8

Told = tuple[str, int] | tuple[str, int, bytes]


def frame(kind: int, flags: int = 0, stream_id: int = 0, length: int | None = None, payload: bytes = b"") -> bytes:
    """A frame as the yamux specification draws it; `length` is the payload's unless it is given."""
    return struct.pack(">BBHII", 0, kind, flags, stream_id, len(payload) if length is None else length) + payload


def told(
    session: Session, data: bytes, *, now: float = 0.0, piece: int | None = None, said: list[Told] | None = None
) -> list[Told]:
    """What the session says to `data`, given in pieces of `piece` bytes (whole, if None), behind what it has `said`
    before; payload that follows payload of the same stream is joined."""
    said = [] if said is None else said
    step = piece or max(1, len(data))
    for start in range(0, len(data), step):
        for event in session.receive(data, start, min(start + step, len(data)), now):
            say(said, event, data)
    return said


def say(said: list[Told], event: Event, data: bytes) -> None:
    """Put an event behind those that were `said`, as a tuple that can be compared."""
    match event:
        case DataReceived(stream, start, end):
            before = said[-1] if said else ("", 0)
            if len(before) == 3 and before[1] == stream.id:
                said[-1] = ("data", stream.id, before[2] + data[start:end])
            else:
                said.append(("data", stream.id, data[start:end]))
        case StreamOpened(stream):
            said.append(("opened", stream.id))
        case CreditReceived(stream):
            said.append(("credit", stream.id))
        case StreamFinished(stream):
            said.append(("finished", stream.id))
        case StreamReset(stream):
            said.append(("reset", stream.id))
        case GoAwayReceived(code):
            said.append(("goaway", code))


class Pipe:
    """One direction of a wire."""

    def __init__(self, *, delay: float = 0.0) -> None:
        self.delay = delay
        self.dead = False
        """What is written from now on is lost, and nobody is told."""
        self.room: int | None = None
        """How many more bytes get through before the wire is cut; None: it is not cut."""
        self._queue: deque[tuple[float, bytes]] = deque()

    def write(self, data: bytes | bytearray, now: float) -> None:
        """Send."""
        if self.room is not None:
            data = data[: self.room]
            self.room -= len(data)
        if data and not self.dead:
            self._queue.append((now + self.delay, bytes(data)))

    def read(self, now: float, limit: int) -> bytes:
        """At most `limit` of the bytes that have arrived."""
        taken = bytearray()
        while self._queue and len(taken) < limit and self._queue[0][0] <= now:
            at, data = self._queue.popleft()
            count = limit - len(taken)
            taken += data[:count]
            if count < len(data):
                self._queue.appendleft((at, data[count:]))
        return bytes(taken)

    @property
    def ended(self) -> bool:
        """The reader has got all that it will ever get, and sees the end."""
        return self.room == 0 and not self._queue

    @property
    def busy(self) -> bool:
        """Bytes are under way."""
        return bool(self._queue)


class End:
    """A session with an honest owner: it sends what credit allows, keeps what comes, and returns credit when told."""

    def __init__(self, *, client: bool, now: float = 0.0, limits: Limits | None = None) -> None:
        self.session = Session(client=client, now=now, limits=limits)
        self.streams: dict[int, Stream] = {}
        """Every stream there ever was, by id."""
        self.waiting: dict[int, bytearray] = defaultdict(bytearray)
        """What the application has given and credit has not allowed yet."""
        self.finishing: set[int] = set()
        self.given: dict[int, bytearray] = defaultdict(bytearray)
        """All that the application has given."""
        self.received: dict[int, bytearray] = defaultdict(bytearray)
        self.held: dict[int, int] = defaultdict(int)
        """Bytes received and not consumed yet."""
        self.finished: set[int] = set()
        """Streams whose end has been received."""
        self.reset: set[int] = set()
        """Streams that either side has reset, or that their session's end has."""
        self.goaway_code: int | None = None
        self.error: RemoteError | None = None
        self.closed = False
        self.out = bytearray()
        """What is to be written to the wire."""

    # -- the application's acts ------------------------------------------------------------------------------------

    def open(self, now: float) -> Stream:
        """Open a stream."""
        stream = self.session.open(now)
        self.streams[stream.id] = stream
        return stream

    def send(self, stream: Stream, data: bytes) -> None:
        """Send `data`, now as far as credit allows, later the rest."""
        self.given[stream.id] += data
        self.waiting[stream.id] += data
        self.push(stream)

    def finish(self, stream: Stream) -> None:
        """No more will be given."""
        self.finishing.add(stream.id)
        self.push(stream)

    def kill(self, stream: Stream) -> None:
        """Reset a stream."""
        if stream.open:
            self.reset.add(stream.id)
            self.session.reset(stream)
            self._flush()

    def consume(self, stream: Stream, count: int, now: float) -> None:
        """Pass on `count` bytes of what is held."""
        count = min(count, self.held[stream.id])
        self.held[stream.id] -= count
        self.session.consumed(stream, count, now)
        self._flush()

    def push(self, stream: Stream) -> None:
        """Send what credit allows."""
        waiting = self.waiting[stream.id]
        count = min(len(waiting), stream.send_window) if stream.may_send else 0
        if count:
            buffer = bytearray(HEADER_SIZE) + waiting[:count]
            del waiting[:count]
            self.session.send_data(stream, buffer, HEADER_SIZE, len(buffer))
            self._flush()
            self.out += buffer
        if stream.may_send and not waiting and stream.id in self.finishing:
            self.session.finish(stream)
            self._flush()

    def goaway(self, code: int = 0) -> None:
        """Say GOAWAY; with a code, that is the end."""
        self.session.goaway(code)
        self._flush()
        if code:
            self.close()

    def tick(self, now: float) -> None:
        """Let the timers run."""
        if not self.closed:
            try:
                self.session.on_time(now)
            except RemoteError as error:
                self._fail(error)
            self._flush()

    def close(self) -> None:
        """The connection has ended."""
        if not self.closed:
            self.closed = True
            self.reset.update(stream.id for stream in self.session.end())

    # -- the wire's ------------------------------------------------------------------------------------------------

    def deliver(self, data: bytes, now: float) -> None:
        """Bytes have come."""
        if self.closed:
            return
        try:
            for event in self.session.receive(data, 0, len(data), now):
                self._on_event(event, data)
        except RemoteError as error:
            self._fail(error)
        self._flush()

    def _on_event(self, event: Event, data: bytes) -> None:
        match event:
            case DataReceived(stream, start, end):
                self.received[stream.id] += data[start:end]
                self.held[stream.id] += end - start
            case StreamOpened(stream):
                assert stream.id not in self.streams, "an id was used twice"
                self.streams[stream.id] = stream
            case CreditReceived(stream):
                self.push(stream)
            case StreamFinished(stream):
                self.finished.add(stream.id)
            case StreamReset(stream):
                self.reset.add(stream.id)
            case GoAwayReceived(code):
                self.goaway_code = code
                if code:
                    self.close()

    def _fail(self, error: RemoteError) -> None:
        self.error = error
        self.goaway(error.code)

    def _flush(self) -> None:
        self.out += self.session.take_outbox()

    def take(self, limit: int | None = None) -> bytes:
        """What is to be written, at most `limit` bytes of it."""
        taken = bytes(self.out[:limit])
        del self.out[: len(taken)]
        return taken


@dataclass
class Spoken:
    """What one side has said about its streams, as the wire shows it."""

    opened: list[int] = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    granted: dict[int, int] = field(default_factory=lambda: defaultdict(lambda: INITIAL_WINDOW))
    finished: set[int] = field(default_factory=set)
    reset: set[int] = field(default_factory=set)


class Witness:
    """Reads both directions of a wire, in the order of writing, and holds the two sides to the specification."""

    def __init__(self) -> None:
        self.sides = (Spoken(), Spoken())
        self._unread = (bytearray(), bytearray())
        self._payload = [0, 0]

    def saw(self, side: int, data: bytes) -> None:
        """Side 0 (the client) or 1 has written `data`. Raises AssertionError where it breaks the rules."""
        self._unread[side].extend(data)
        for kind, flags, stream_id, length in self._frames(side):
            if kind in (DATA, WINDOW_UPDATE):
                self._judge(self.sides[side], self.sides[1 - side], side, (kind, flags, stream_id, length))

    def _frames(self, side: int) -> Iterator[tuple[int, int, int, int]]:
        """The headers, each as soon as it is complete: the other side may answer before the payload has come."""
        unread = self._unread[side]
        while True:
            skipped = min(self._payload[side], len(unread))
            self._payload[side] -= skipped
            del unread[:skipped]
            if len(unread) < HEADER_SIZE:
                return
            version, kind, flags, stream_id, length = struct.unpack_from(">BBHII", unread)
            assert version == 0
            del unread[:HEADER_SIZE]
            self._payload[side] = length if kind == DATA else 0
            yield kind, flags, stream_id, length

    @staticmethod
    def _judge(said: Spoken, other: Spoken, side: int, header: tuple[int, int, int, int]) -> None:
        kind, flags, stream_id, length = header
        if flags & SYN:
            assert stream_id % 2 == 1 - side, "opened with the other side's parity"
            assert not said.opened or stream_id > said.opened[-1], "ids do not ascend"
            said.opened.append(stream_id)
        assert stream_id in (said.opened if stream_id % 2 == 1 - side else other.opened), "a stream nobody opened"
        assert stream_id not in said.reset, "a frame after RST"
        if kind == DATA:
            assert not length or stream_id not in said.finished, "data after FIN"
            said.sent[stream_id] += length
            assert said.sent[stream_id] <= other.granted[stream_id], "more sent than granted"
        else:
            said.granted[stream_id] += length
        if flags & FIN:
            assert stream_id not in said.finished, "FIN twice"
            said.finished.add(stream_id)
        if flags & RST:
            said.reset.add(stream_id)


class Wire:
    """Two ends, two pipes and a witness. The client is end 0."""

    def __init__(self, *, delay: float = 0.0, limits: Limits | None = None, now: float = 0.0) -> None:
        self.now = now
        self.ends = (End(client=True, now=now, limits=limits), End(client=False, now=now, limits=limits))
        self.pipes = (Pipe(delay=delay), Pipe(delay=delay))
        """`pipes[n]` carries what `ends[n]` writes."""
        self.witness = Witness()

    def write(self, side: int, limit: int | None = None) -> None:
        """Let one end write, at most `limit` bytes; a closed one closes its direction behind its last words."""
        end = self.ends[side]
        data = end.take(limit)
        self.witness.saw(side, data)
        self.pipes[side].write(data, self.now)
        if end.closed and not end.out:
            self.pipes[side].room = 0

    def read(self, side: int, limit: int = 1 << 20) -> int:
        """Let one end read what has arrived, at most `limit` bytes; how many it got."""
        pipe = self.pipes[1 - side]
        data = pipe.read(self.now, limit)
        if data:
            self.ends[side].deliver(data, self.now)
        elif pipe.ended:
            self.ends[side].close()
        return len(data)

    def cut(self, room: int = 0) -> None:
        """Both directions get at most `room` more bytes through, then the connection ends."""
        for pipe in self.pipes:
            pipe.room = room if pipe.room is None else min(room, pipe.room)

    def settle(self, *, consume: bool = True) -> None:
        """Go on until nothing moves any more: everything is written, read and, if wanted, consumed."""
        moved = True
        while moved:
            moved = False
            for side, end in enumerate(self.ends):
                moved = bool(end.out) or moved
                self.write(side)
                moved = bool(self.read(1 - side)) or moved
            if consume:
                for end in self.ends:
                    for stream_id, held in list(end.held.items()):
                        if held:
                            end.consume(end.streams[stream_id], held, self.now)
                            moved = True
            if not moved and any(pipe.busy for pipe in self.pipes):
                self.now += max(pipe.delay for pipe in self.pipes)
                moved = True
