"""The yamux session: frames in, events out; acts in, frames out (https://github.com/hashicorp/yamux/blob/master/spec.md).

Theory. The session has three facts of its own: have we said GOAWAY, has the peer said it, and is it closed. Streams have
their table in `stream.py`. An inbound stream id is *new* (right parity, above all seen before), *live*, or *retired*
(seen before, not live now): late frames for a retired stream are ignored, a frame for an id that never was is an error.
A frame is judged whole, by its header, before anything changes. Payload is never copied: `DataReceived` points into the
caller's buffer, and `send_data` packs the header into the twelve bytes before the payload.
"""

from __future__ import annotations

from collections.abc import Iterator

from relay.protocol import frames
from relay.protocol.errors import FloodError, GoAwayCode, KeepaliveTimeout, LocalError, RemoteError
from relay.protocol.events import (
    CreditReceived,
    DataReceived,
    Event,
    GoAwayReceived,
    StreamFinished,
    StreamOpened,
    StreamReset,
)
from relay.protocol.frames import ACK, DATA, FIN, GO_AWAY, PING, RST, SYN, WINDOW_UPDATE
from relay.protocol.limits import HEADER_SIZE, INITIAL_WINDOW, MAX_STREAM_ID, MAX_WINDOW, Budget, Limits
from relay.protocol.stream import TABLE, Act, State, Stream


class Session:
    """One end of a multiplexed connection. The dialler is the client and opens odd stream ids.

    `outbox` collects what must be written, in order; the owner takes it with `take_outbox` and may add to it what
    `send_data` has packed. Times are monotonic seconds, given by the caller.
    """

    def __init__(self, *, client: bool, now: float, limits: Limits | None = None, first_id: int | None = None) -> None:
        self.limits = limits or Limits()
        self.streams: dict[int, Stream] = {}
        self.outbox = bytearray()
        self.rtt: float | None = None
        """Seconds of the newest ping's round trip; None before the first answer."""
        self.refused = 0
        """Inbound streams refused with RST: backlog, stream limit or drain."""
        self.goaway_sent = self.goaway_received = False
        self._client = client
        self._next_id = first_id if first_id is not None else (1 if client else 2)
        self._last_remote = 0
        self._inbound = self._unaccepted = 0
        self._growth_left = self.limits.growth_budget
        self._control_waiting = 0
        self._resets = Budget(self.limits.resets, self.limits.flood_period)
        self._pings = Budget(self.limits.pings, self.limits.flood_period)
        self._head = bytearray()
        self._payload_left = 0
        self._payload_stream: Stream | None = None
        self._payload_fin = False
        self._last_received = now
        self._ping_id = 0
        self._ping_sent: float | None = None
        self._next_ping = now

    # -- reading ---------------------------------------------------------------------------------------------------

    def receive(self, buffer: bytes | bytearray | memoryview, start: int, end: int, now: float) -> Iterator[Event]:
        """The events in `buffer[start:end]`, one by one: exhaust the iterator before the buffer is used again.

        Events do not depend on how the bytes are cut, except that payload comes in as many pieces as it was cut into.
        Raises RemoteError at the first illegal frame; what came before it has been delivered.
        """
        self._last_received = now
        position = start
        while position < end:
            if self._payload_left:
                count = min(self._payload_left, end - position)
                self._payload_left -= count
                stream = self._payload_stream
                if stream is not None and stream.state:
                    yield DataReceived(stream, position, position + count)
                position += count
                if not self._payload_left and self._payload_fin:
                    yield from self._payload_ended()
                continue
            head = self._head
            if not head and end - position >= HEADER_SIZE:
                fields = frames.HEADER.unpack_from(buffer, position)
                position += HEADER_SIZE
            else:
                taken = min(HEADER_SIZE - len(head), end - position)
                head += buffer[position : position + taken]
                position += taken
                if len(head) < HEADER_SIZE:
                    return
                fields = frames.HEADER.unpack(head)
                head.clear()
            yield from self._frame(*fields, now)

    def _payload_ended(self) -> Iterator[Event]:
        stream = self._payload_stream
        # The owner may have reset the stream while it was given the payload.
        if stream is not None and stream.state:
            yield self._finished(stream)

    def _frame(self, version: int, kind: int, flags: int, stream_id: int, length: int, now: float) -> Iterator[Event]:
        frames.check(version, kind, flags, stream_id)
        # Judged here and not where a frame is queued: our own acts never fail for what the peer does.
        if self._control_waiting > self.limits.control_bytes:
            raise FloodError(f"{self._control_waiting} bytes of control frames wait for a peer that does not read")
        if kind == PING:
            self._ping(flags, length, now)
        elif kind == GO_AWAY:
            self.goaway_received = True
            yield GoAwayReceived(length)
        else:
            stream = self._find(kind, flags, stream_id, length, now)
            if flags & SYN and stream is not None:
                self._open_inbound(stream)
                yield StreamOpened(stream)
            if kind == DATA:
                yield from self._data(stream, flags, length, now)
            elif stream is not None and stream.state:
                yield from self._window_update(stream, flags, length, now)

    def _find(self, kind: int, flags: int, stream_id: int, length: int, now: float) -> Stream | None:
        """The stream that the frame is for, or None if it is retired or refused. Judges the whole frame."""
        if flags & SYN:
            stream = self._judge_syn(stream_id, now)
        else:
            stream = self.streams.get(stream_id)
            if stream is None:
                self._judge_retired(stream_id)
        if stream is not None:
            self._judge_stream(stream, kind, flags, length)
        if stream is not None and flags & SYN and self._refuses():
            self.refused += 1
            self._last_remote = stream_id
            self._control(WINDOW_UPDATE, RST, stream_id, 0)
            return None
        return stream

    def _judge_syn(self, stream_id: int, now: float) -> Stream:
        if (stream_id & 1) == self._client:
            raise RemoteError(f"peer opened stream {stream_id}, which has our parity")
        if stream_id <= self._last_remote:
            raise RemoteError(f"peer opened stream {stream_id} again, the last was {self._last_remote}")
        return Stream(stream_id, first_flags=0, accepted=False, now=now)

    def _judge_retired(self, stream_id: int) -> None:
        ours = (stream_id & 1) == self._client
        if stream_id >= self._next_id if ours else stream_id > self._last_remote:
            raise RemoteError(f"frame for stream {stream_id}, which was never opened")

    @staticmethod
    def _judge_stream(stream: Stream, kind: int, flags: int, length: int) -> None:
        if flags & RST:
            return
        if kind == DATA:
            if length > stream.receive_window.credit:
                raise RemoteError(
                    f"stream {stream.id}: frame of {length} bytes, the window has {stream.receive_window.credit}"
                )
            if (length or flags & FIN) and (stream.state, Act.RECV_DATA) not in TABLE:
                raise RemoteError(f"stream {stream.id}: data after FIN")
            return
        if flags & FIN and (stream.state, Act.RECV_FIN) not in TABLE:
            raise RemoteError(f"stream {stream.id}: FIN twice")
        if stream.send_window + length > MAX_WINDOW:
            raise RemoteError(
                f"stream {stream.id}: window of {stream.send_window} bytes grows by {length}, past 2^32-1"
            )

    def _refuses(self) -> bool:
        return self.goaway_sent or self._unaccepted >= self.limits.backlog or self._inbound >= self.limits.max_streams

    def _open_inbound(self, stream: Stream) -> None:
        self._last_remote = stream.id
        self.streams[stream.id] = stream
        self._inbound += 1
        self._unaccepted += 1
        self._control(WINDOW_UPDATE, ACK, stream.id, 0)

    def _data(self, stream: Stream | None, flags: int, length: int, now: float) -> Iterator[Event]:
        self._payload_left = length
        self._payload_fin = bool(flags & FIN)
        if stream is not None and flags & RST:
            yield self._remote_reset(stream, now)
        elif stream is not None:
            stream.receive_window.credit -= length
        self._payload_stream = stream
        if self._payload_fin and not length:
            yield from self._payload_ended()

    def _window_update(self, stream: Stream, flags: int, length: int, now: float) -> Iterator[Event]:
        if flags & RST:
            yield self._remote_reset(stream, now)
            return
        if length:
            stream.send_window += length
            yield CreditReceived(stream)
        # The owner may have reset the stream while it was told of the credit.
        if flags & FIN and stream.state:
            yield self._finished(stream)

    def _finished(self, stream: Stream) -> StreamFinished:
        self._move(stream, Act.RECV_FIN)
        return StreamFinished(stream)

    def _remote_reset(self, stream: Stream, now: float) -> StreamReset:
        rapid = not stream.accepted
        self._move(stream, Act.RESET)
        if rapid and not self._resets.spend(now):
            raise FloodError(f"more than {self.limits.resets} streams opened and reset in {self.limits.flood_period} s")
        return StreamReset(stream)

    def _ping(self, flags: int, value: int, now: float) -> None:
        if flags & SYN:
            if not self._pings.spend(now):
                raise FloodError(f"more than {self.limits.pings} pings in {self.limits.flood_period} s")
            self._control(PING, ACK, 0, value)
        elif self._ping_sent is not None and value == self._ping_id:
            self.rtt = now - self._ping_sent
            self._ping_sent = None

    # -- acting ----------------------------------------------------------------------------------------------------

    @property
    def can_open(self) -> bool:
        """False once either side has said GOAWAY or the stream ids are used up: dial a new session."""
        return not (self.goaway_sent or self.goaway_received or self._next_id > MAX_STREAM_ID)

    def open(self, now: float) -> Stream:
        """A new stream. Its SYN rides on the first frame that is sent for it. Raises LocalError unless `can_open`."""
        if not self.can_open:
            raise LocalError("this session opens no more streams")
        stream = Stream(self._next_id, first_flags=SYN, accepted=True, now=now)
        self._next_id += 2
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
        if (stream.state, Act.SEND_DATA) not in TABLE:
            raise LocalError(f"stream {stream.id}: nothing may be sent any more")
        if length > stream.send_window:
            raise LocalError(f"stream {stream.id}: {length} bytes, the peer has granted {stream.send_window}")
        if start < HEADER_SIZE:
            raise LocalError(f"payload at {start} leaves no room for the header")
        stream.send_window -= length
        flags = stream.first_flags
        stream.first_flags = 0
        if fin:
            flags |= FIN
            self._move(stream, Act.SEND_FIN)
        frames.HEADER.pack_into(buffer, start - HEADER_SIZE, frames.VERSION, DATA, flags, stream.id, length)

    def finish(self, stream: Stream) -> None:
        """Send FIN: no more bytes from us on this stream. Raises LocalError if that was said before."""
        if (stream.state, Act.SEND_FIN) not in TABLE:
            raise LocalError(f"stream {stream.id}: FIN twice")
        flags = stream.first_flags | FIN
        stream.first_flags = 0
        self._move(stream, Act.SEND_FIN)
        self.outbox += frames.pack(DATA, flags, stream.id, 0)

    def reset(self, stream: Stream) -> None:
        """End a stream at once, both ways. On a closed stream this does nothing."""
        if stream.state:
            # A stream whose SYN has not gone out is unknown to the peer.
            if not stream.first_flags:
                self._control(WINDOW_UPDATE, RST, stream.id, 0)
            self._move(stream, Act.RESET)

    def consumed(self, stream: Stream, count: int, now: float) -> None:
        """The owner has passed on `count` bytes of this stream: return the credit, at half a window, and let the window
        grow while the peer uses it up quickly."""
        window = stream.receive_window
        if not window.consume(count) or (stream.state, Act.RECV_DATA) not in TABLE:
            return
        interval = max(self.limits.growth_interval, 4 * (self.rtt or 0.0))
        growth = min(window.grows(now, interval, self.limits.max_window), self._growth_left)
        self._growth_left -= growth
        flags = stream.first_flags
        stream.first_flags = 0
        self._control(WINDOW_UPDATE, flags, stream.id, window.grant(growth, now))

    def goaway(self, code: int = GoAwayCode.NORMAL) -> None:
        """Accept no more streams. Code 0 is a drain: those that were accepted go on; any other code ends the session."""
        self.goaway_sent = True
        self._control(GO_AWAY, 0, 0, code)

    def end(self) -> list[Stream]:
        """The connection has ended: every stream is closed, nothing more can be sent. The streams that were open."""
        ended = list(self.streams.values())
        self.goaway_sent = True
        for stream in ended:
            self._move(stream, Act.RESET)
        return ended

    def take_outbox(self) -> bytearray:
        """What is to be written now; the outbox is empty afterwards."""
        taken, self.outbox = self.outbox, bytearray()
        self._control_waiting = 0
        return taken

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        """When `on_time` wants to be called next."""
        if self._ping_sent is None:
            return self._next_ping
        return max(self._ping_sent, self._last_received) + self.limits.keepalive_answer

    def on_time(self, now: float) -> None:
        """Send a ping when it is due. Raises KeepaliveTimeout when nothing at all has come since the last one and its
        time is up: on a slow link the answer queues behind data, and data proves as much as the answer would."""
        if now < self.deadline:
            return
        if self._ping_sent is not None and self._last_received <= self._ping_sent:
            raise KeepaliveTimeout(f"nothing received for {now - self._last_received:.0f} s")
        self._ping_id = (self._ping_id + 1) & MAX_WINDOW
        self._ping_sent = now
        self._next_ping = now + self.limits.keepalive
        self._control(PING, SYN, 0, self._ping_id)

    # -- both ------------------------------------------------------------------------------------------------------

    def _control(self, kind: int, flags: int, stream_id: int, length: int) -> None:
        self._control_waiting += HEADER_SIZE
        self.outbox += frames.pack(kind, flags, stream_id, length)

    def _move(self, stream: Stream, act: int) -> None:
        stream.state = TABLE[stream.state, act]
        if stream.state == State.CLOSED:
            del self.streams[stream.id]
            self._growth_left += max(0, stream.receive_window.size - INITIAL_WINDOW)
            if (stream.id & 1) != self._client:
                self._inbound -= 1
                self.accept(stream)
