"""The yamux session: frames in, events out; acts in, frames out (https://github.com/hashicorp/yamux, spec.md).

Theory. The session has three facts of its own: have we said GOAWAY, has the peer said it, and is it broken. Streams
have their table in `stream.py`. A stream id is *new*, *live*, or *retired* (used before, not live now): late frames
for a retired stream are ignored, a frame for an id that never was is an error. A frame is judged whole, by its header,
before anything changes. Payload is never copied: `DataReceived` points into the caller's buffer, and `send_data` packs
the header into the twelve bytes before the payload. What the owner does between two events holds for the rest of a
frame.
"""

from __future__ import annotations

from collections.abc import Iterator

from relay.protocol import frames
from relay.protocol.errors import GoAwayCode, LocalError, RemoteError
from relay.protocol.events import (
    CreditReceived,
    DataReceived,
    Event,
    GoAwayReceived,
    StreamFinished,
    StreamOpened,
    StreamReset,
)
from relay.protocol.flood import FloodGuard
from relay.protocol.frames import ACK, DATA, FIN, GO_AWAY, HEADER, PING, RST, SYN, WINDOW_UPDATE
from relay.protocol.keepalive import Keepalive
from relay.protocol.limits import HEADER_SIZE, INITIAL_WINDOW, Limits
from relay.protocol.stream import RECEIVING, SENDING, TABLE, Act, State, Stream
from relay.protocol.stream_ids import StreamIds


class Session:
    """One end of a multiplexed connection. The dialler is the client and opens odd stream ids.

    `outbox` collects what must be written, in order; the owner takes it with `take_outbox` and may add to it what
    `send_data` has packed. Times are monotonic seconds, given by the caller.
    """

    def __init__(self, *, client: bool, now: float, limits: Limits | None = None, first_id: int | None = None) -> None:
        self.limits = limits or Limits()
        self.streams: dict[int, Stream] = {}
        self.outbox = bytearray()
        self.refused = 0
        """Inbound streams refused with RST: backlog, stream limit or drain."""
        self.goaway_sent = self.goaway_received = False
        self.broken = False
        """True once `receive` has raised or was left early: the bytes that follow cannot be understood any more."""
        self._client = client
        self._ids = StreamIds(client=client, first=first_id)
        self._inbound = self._unaccepted = 0
        self._growth_left = self.limits.growth_budget
        self._largest_window = max(INITIAL_WINDOW, self.limits.max_window)
        self._control_waiting = 0
        self._guard = FloodGuard(self.limits)
        self._head = bytearray()
        self._payload_left = 0
        self._payload_stream: Stream | None = None
        self._payload_fin = False
        self._keepalive = Keepalive(self.limits, now)

    # -- reading ---------------------------------------------------------------------------------------------------

    def receive(self, buffer: bytes | bytearray | memoryview, start: int, end: int, now: float) -> Iterator[Event]:
        """The events in `buffer[start:end]`, one by one: exhaust the iterator before the buffer is used again.

        Events do not depend on how the bytes are cut, except that payload comes in as many pieces as it was cut into.
        Raises RemoteError at the first illegal frame; what came before it has been delivered, what comes after it is
        ignored.
        """
        if self.broken or start >= end:
            return
        self._keepalive.heard = now
        try:
            yield from self._events(buffer, start, end, now)
        except BaseException:
            self.broken = True
            raise

    def _events(self, buffer: bytes | bytearray | memoryview, position: int, end: int, now: float) -> Iterator[Event]:
        head, streams = self._head, self.streams
        while position < end:
            if self._payload_left:
                stop = min(position + self._payload_left, end)
                yield from self._payload(position, stop)
                position = stop
                continue
            if not head and end - position >= HEADER_SIZE:
                word, stream_id, length = HEADER.unpack_from(buffer, position)
                position += HEADER_SIZE
            else:
                taken = min(HEADER_SIZE - len(head), end - position)
                head += buffer[position : position + taken]
                position += taken
                if len(head) < HEADER_SIZE:
                    return
                word, stream_id, length = HEADER.unpack(head)
                head.clear()
            stop = position + length
            # The fast path: plain data for a live stream, all of it here.
            if not word and position < stop <= end and (stream := streams.get(stream_id)) is not None:
                window = stream.receive_window
                if stream.state & RECEIVING and length <= window.credit:
                    window.credit -= length
                    yield DataReceived(stream, position, stop)
                    position = stop
                    continue
            yield from self._frame(word, stream_id, length, now)

    def _payload(self, start: int, stop: int) -> Iterator[Event]:
        self._payload_left -= stop - start
        stream = self._payload_stream
        if stream is not None and stream.state:
            yield DataReceived(stream, start, stop)
        if not self._payload_left:
            yield from self._payload_ended()

    def _payload_ended(self) -> Iterator[Event]:
        stream, self._payload_stream = self._payload_stream, None
        # The owner may have reset the stream while it was given the payload.
        if self._payload_fin and stream is not None and stream.state:
            yield self._finished(stream)

    def _frame(self, word: int, stream_id: int, length: int, now: float) -> Iterator[Event]:
        kind, flags = frames.split(word, stream_id)
        if kind == PING:
            self._ping(flags, length, now)
        elif kind == GO_AWAY:
            self.goaway_received = True
            yield GoAwayReceived(length)
        else:
            stream = self._find(kind, flags, stream_id, length, now)
            if flags & SYN and stream is not None:
                yield StreamOpened(stream)
            if kind == DATA:
                yield from self._data(stream, flags, length)
            elif stream is not None and stream.state:
                yield from self._window_update(stream, flags, length)

    def _find(self, kind: int, flags: int, stream_id: int, length: int, now: float) -> Stream | None:
        """The stream that the frame is for, or None if it is retired or refused. Judges the whole frame."""
        if flags & SYN:
            return self._admit(kind, flags, stream_id, length, now)
        stream = self.streams.get(stream_id)
        if stream is None:
            self._ids.judge_used(stream_id)
            if kind == DATA and length > self._largest_window:
                raise RemoteError(f"stream {stream_id}: frame of {length} bytes, no window was ever that large")
            return None
        stream.judge(kind, flags, length)
        if flags & RST and not stream.accepted:
            self._guard.reset(now)
        return stream

    def _admit(self, kind: int, flags: int, stream_id: int, length: int, now: float) -> Stream | None:
        """The new stream, or None if it is refused."""
        self._ids.judge_new(stream_id)
        stream = Stream(stream_id, state=State.OPEN, accepted=False, now=now)
        stream.judge(kind, flags, length)
        self._guard.answer(self._control_waiting)
        self._ids.use(stream_id)
        if self._refuses():
            self.refused += 1
            self._control(WINDOW_UPDATE, RST, stream_id, 0)
            return None
        self.streams[stream_id] = stream
        self._inbound += 1
        self._unaccepted += 1
        self._control(WINDOW_UPDATE, ACK, stream_id, 0)
        return stream

    def _refuses(self) -> bool:
        return self.goaway_sent or self._unaccepted >= self.limits.backlog or self._inbound >= self.limits.max_streams

    def _data(self, stream: Stream | None, flags: int, length: int) -> Iterator[Event]:
        self._payload_stream, self._payload_left, self._payload_fin = stream, length, bool(flags & FIN)
        if stream is not None and flags & RST:
            yield self._remote_reset(stream)
        elif stream is not None:
            stream.receive_window.credit -= length
        if not length:
            yield from self._payload_ended()

    def _window_update(self, stream: Stream, flags: int, length: int) -> Iterator[Event]:
        if flags & RST:
            yield self._remote_reset(stream)
            return
        stream.send_window += length
        if length and stream.state & SENDING:
            yield CreditReceived(stream)
        # The owner may have reset the stream while it was told of the credit.
        if flags & FIN and stream.state:
            yield self._finished(stream)

    def _finished(self, stream: Stream) -> StreamFinished:
        self._move(stream, Act.RECV_FIN)
        return StreamFinished(stream)

    def _remote_reset(self, stream: Stream) -> StreamReset:
        self._move(stream, Act.RECV_RESET)
        return StreamReset(stream)

    def _ping(self, flags: int, value: int, now: float) -> None:
        if not flags & SYN:
            self._keepalive.answered(value, now)
            return
        self._guard.ping(now)
        self._guard.answer(self._control_waiting)
        self._control(PING, ACK, 0, value)

    # -- acting ----------------------------------------------------------------------------------------------------

    @property
    def can_open(self) -> bool:
        """False once either side has said GOAWAY or the stream ids are used up: dial a new session."""
        return not (self.goaway_sent or self.goaway_received or self._ids.exhausted)

    def open(self, now: float) -> Stream:
        """A new stream. Its SYN rides on the first frame that is sent for it. Raises LocalError unless `can_open`."""
        if not self.can_open:
            raise LocalError("this session opens no more streams")
        stream = Stream(self._ids.take(), state=State.IDLE, accepted=True, now=now)
        self.streams[stream.id] = stream
        return stream

    def accept(self, stream: Stream) -> None:
        """Take an inbound stream out of the backlog: it has been answered."""
        if not stream.accepted:
            stream.accepted = True
            self._unaccepted -= 1

    def send_data(
        self, stream: Stream, buffer: bytearray | memoryview, start: int, end: int, *, fin: bool = False
    ) -> None:
        """Pack the header of `buffer[start:end]` into the twelve bytes before `start`; the caller writes
        `buffer[start - 12:end]`, after everything that is in `outbox` now. Raises LocalError above the peer's credit,
        after our FIN or without room for the header."""
        length = end - start
        if not stream.state & SENDING:
            raise LocalError(f"stream {stream.id}: nothing may be sent any more")
        if not 0 <= length <= stream.send_window:
            raise LocalError(f"stream {stream.id}: {length} bytes, the peer has granted {stream.send_window}")
        if start < HEADER_SIZE:
            raise LocalError(f"payload at {start} leaves no room for the header")
        flags = SYN if stream.state == State.IDLE else 0
        if flags:
            self._announce(stream)
        if fin:
            flags |= FIN
            self._move(stream, Act.SEND_FIN)
        stream.send_window -= length
        HEADER.pack_into(buffer, start - HEADER_SIZE, flags, stream.id, length)

    def finish(self, stream: Stream) -> None:
        """Send FIN: no more bytes from us on this stream. Raises LocalError if that was said before."""
        if not stream.state & SENDING:
            raise LocalError(f"stream {stream.id}: FIN twice")
        flags = SYN if stream.state == State.IDLE else 0
        if flags:
            self._announce(stream)
        self._move(stream, Act.SEND_FIN)
        self._control(DATA, flags | FIN, stream.id, 0)

    def _announce(self, stream: Stream) -> None:
        """Before a SYN: ids go out in ascending order, so streams opened earlier that have not said a word go first."""
        for stream_id in self._ids.announce(stream.id):
            earlier = self.streams.get(stream_id)
            if earlier is not None:
                self._move(earlier, Act.SEND_DATA)
                self._control(WINDOW_UPDATE, SYN, stream_id, 0)
        self._move(stream, Act.SEND_DATA)

    def reset(self, stream: Stream) -> None:
        """End a stream at once, both ways. On a closed stream this does nothing."""
        if stream.state:
            if stream.state != State.IDLE:
                self._control(WINDOW_UPDATE, RST, stream.id, 0)
            self._move(stream, Act.SEND_RESET)

    def consumed(self, stream: Stream, count: int, now: float) -> None:
        """The owner has passed on `count` bytes of this stream: return the credit, at half a window, and let the window
        grow while the peer uses it up quickly. Raises LocalError for bytes that it was never given."""
        window = stream.receive_window
        if not window.consume(count) or not stream.state & RECEIVING:
            return
        interval = max(self.limits.growth_interval, 4 * (self._keepalive.rtt or 0.0))
        growth = min(window.growth(now, interval, self.limits.max_window), self._growth_left)
        self._growth_left -= growth
        self._control(WINDOW_UPDATE, 0, stream.id, window.grant(growth, now))

    def goaway(self, code: int = GoAwayCode.NORMAL) -> None:
        """Accept no more streams. Code 0 is a drain: the accepted ones go on; any other code ends the session."""
        self.goaway_sent = True
        self._control(GO_AWAY, 0, 0, code)

    def end(self) -> list[Stream]:
        """The connection has ended: every stream is closed, nothing more can be sent. The streams that were open."""
        ended = list(self.streams.values())
        self.goaway_sent = True
        for stream in ended:
            self._move(stream, Act.SEND_RESET)
        return ended

    def take_outbox(self) -> bytearray:
        """What is to be written now; the outbox is empty afterwards."""
        taken, self.outbox = self.outbox, bytearray()
        self._control_waiting = 0
        return taken

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def rtt(self) -> float | None:
        """Seconds of the newest ping's round trip; None before the first answer."""
        return self._keepalive.rtt

    @property
    def deadline(self) -> float:
        """When `on_time` wants to be called next."""
        return self._keepalive.deadline

    def on_time(self, now: float) -> None:
        """Send a ping when it is due. Raises KeepaliveTimeout when the peer has been silent for too long."""
        ping_id = self._keepalive.due(now)
        if ping_id is not None:
            self._control(PING, SYN, 0, ping_id)

    # -- both ------------------------------------------------------------------------------------------------------

    def _control(self, kind: int, flags: int, stream_id: int, length: int) -> None:
        self._control_waiting += HEADER_SIZE
        self.outbox += frames.pack(kind, flags, stream_id, length)

    def _move(self, stream: Stream, act: int) -> None:
        stream.state = TABLE[stream.state, act]
        if stream.state == State.CLOSED:
            del self.streams[stream.id]
            self._growth_left += stream.receive_window.size - INITIAL_WINDOW
            if (stream.id & 1) != self._client:
                self._inbound -= 1
                self.accept(stream)
