"""One multiplexed session on a connection: bytes go to the protocol, events to channels, frames to the socket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from relay.net.channel import NOBODY, Channel
from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.net.heads import AnswerReader, HeadReader
from relay.net.splice import splice
from relay.protocol.connect import ConnectRequest
from relay.protocol.errors import GoAwayCode, RemoteError, describe_code
from relay.protocol.events import (
    CreditReceived,
    DataReceived,
    Event,
    GoAwayReceived,
    StreamFinished,
    StreamOpened,
    StreamReset,
)
from relay.protocol.limits import Limits
from relay.protocol.problem import Problem
from relay.protocol.session import Session

ROOM: Final = 64 * 1024
"""Small frames that may wait for a blocked link."""
WRITE_STALL: Final = 30.0
"""Seconds without one byte accepted by the socket while data waits: the peer only talks (faults.md, section 4)."""
HALF_CLOSED_IDLE: Final = 300.0
"""Seconds that a half-closed stream may carry nothing (faults.md, R5)."""
QUEUE_BUDGET: Final = 4 * 1024 * 1024
"""Bytes that wait in a session, above each stream's first QUEUE_FREE (design.md 3.1)."""
QUEUE_FREE: Final = 64 * 1024
QUEUE_STALL: Final = 10.0
"""Over the budget, only a stream that has not moved for so long is reset: a slow reader is not a dead one (ADR 3)."""

OnStream = Callable[[Channel, ConnectRequest], None]
OnAnswer = Callable[["Channel | Problem"], None]


class Mux:
    """A session. `on_stream(channel, request)` is called for each stream that the peer opens, once its CONNECT head has
    come; `on_drain(mux)` when the peer accepts no more streams but goes on with the open ones; `on_closed(mux, reason,
    code)` once, with the GOAWAY code if one of the two sides gave one."""

    def __init__(
        self,
        engine: Engine,
        connection: Connection,
        *,
        client: bool,
        on_stream: OnStream,
        on_closed: Callable[[Mux, str, int | None], None],
        on_drain: Callable[[Mux], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.engine = engine
        self.connection = connection
        self.seen = engine.now()
        """When the bytes that are being handled came; saves a clock call per event."""
        self.session = Session(client=client, now=self.seen, limits=limits)
        self.dirty = False
        self.closed = False
        self._on_stream = on_stream
        self._on_closed = on_closed
        self._on_drain = on_drain
        self._waiting: deque[Channel] = deque()
        self._wrote_in_turn = self._serving = False
        self._drained: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Adopt the connection; from here on the session lives until `on_closed`."""
        self.engine.muxes.add(self)
        self.connection.start(self)
        self.on_tick(self.seen)
        self.engine.settle()

    # -- acts ------------------------------------------------------------------------------------------------------

    @property
    def can_open(self) -> bool:
        """False when a new session must be dialled for new streams."""
        return not self.closed and self.session.can_open

    @property
    def active(self) -> int:
        """Streams that are open now."""
        return len(self.session.streams)

    @property
    def has_room(self) -> bool:
        """Whether a blocked link still takes small frames."""
        return len(self.session.outbox) < ROOM

    def open(self, request: ConnectRequest, on_answer: OnAnswer, timeout: float) -> None:
        """Open a stream; `on_answer` gets the channel after the 200, or the problem, within `timeout` seconds."""
        channel = self._channel()
        channel.sink = AnswerReader(channel, on_answer, timeout)
        channel.send_bytes(request.encode())

    def relay(self, incoming: Channel, request: ConnectRequest) -> None:
        """Continue a peer's stream on this session: the answer and all that follows pass through as bytes."""
        outgoing = self._channel()
        outgoing.send_bytes(request.encode())
        splice(incoming, outgoing)

    def _channel(self) -> Channel:
        self.seen = self.engine.now()
        stream = self.session.open(self.seen)
        stream.owner = channel = Channel(self, stream, NOBODY, self.seen)
        return channel

    async def drain(self, seconds: float) -> None:
        """Refuse new streams, wait until the open ones have ended or `seconds` are over, then close."""
        if self.closed:
            return
        self._goaway(GoAwayCode.NORMAL)
        self._drained = self.engine.loop.create_future()
        if not self.session.streams:
            self._drained.set_result(None)
        try:
            async with asyncio.timeout(seconds):
                await self._drained
        except TimeoutError:
            pass
        self.close(GoAwayCode.NORMAL, "drained")

    def close(self, code: GoAwayCode, reason: str) -> None:
        """Tell the peer why, reset every stream, and close the connection."""
        if not self.closed:
            self.session.goaway(code)
            last_words = self.session.take_outbox()
            self._end(reason, code)
            self.connection.close(last_words)

    def _goaway(self, code: GoAwayCode) -> None:
        self.session.goaway(code)
        self.engine.touch(self)
        self.engine.settle()

    def _end(self, reason: str, code: int | None) -> None:
        self.closed = True
        self.engine.muxes.discard(self)
        self._waiting.clear()
        for stream in self.session.end():
            self._gone(stream.owner)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._on_closed(self, reason, code)

    # -- the connection's events -----------------------------------------------------------------------------------

    def on_bytes(self, start: int, end: int) -> None:
        """Plaintext for this session lies in the engine's buffer."""
        engine = self.engine
        buffer = engine.received
        self.seen = now = engine.now()
        try:
            for event in self.session.receive(buffer, start, end, now):
                if isinstance(event, DataReceived):
                    channel: Channel = event.stream.owner
                    channel.moved_at = now
                    channel.sink.on_data(buffer, event.start, event.end)
                else:
                    self._on_event(event)
                if self.closed:
                    break
            if self.session.outbox:
                engine.touch(self)
        except RemoteError as error:
            self._broken(error)
        engine.settle()

    def _on_event(self, event: Event) -> None:
        match event:
            case CreditReceived(stream):
                stream.owner.resume()
            case StreamOpened(stream):
                stream.owner = channel = Channel(self, stream, NOBODY, self.seen)
                channel.sink = HeadReader(channel, self._on_stream)
            case StreamFinished(stream):
                stream.owner.sink.on_finish()
                self.stream_moved(stream.owner)
            case StreamReset(stream):
                self._gone(stream.owner)
                self.stream_moved(stream.owner)
            case GoAwayReceived(code):
                self._on_goaway(code)

    def on_writable(self) -> None:
        """The link takes bytes again: control and small frames first, then the waiting streams, each one frame."""
        self.seen = self.engine.now()
        self._flush()
        self._serve()
        self.engine.settle()

    def _serve(self) -> None:
        """Give each stream that waits one frame, until the link is blocked."""
        for _ in range(len(self._waiting)):
            if self.connection.blocked or self.closed:
                break
            channel = self._waiting.popleft()
            channel.waiting = False
            channel.resume()

    def on_lost(self, reason: str) -> None:
        """The connection has ended without a word."""
        if not self.closed:
            self._end(reason, None)
            self.engine.settle()

    def on_tick(self, now: float) -> None:
        """Once a second: keepalive, write stall, streams that idle half-closed, the budget of queued bytes."""
        try:
            self.session.on_time(now)
        except RemoteError as error:
            self._broken(error)
            return
        if self.session.outbox:
            self.engine.touch(self)
        if self.connection.blocked and now - self.connection.written_at > WRITE_STALL:
            self.close(GoAwayCode.WRITE_STALL, f"the peer took nothing for {WRITE_STALL:.0f} s")
            return
        self._watch_streams(now)

    def _watch_streams(self, now: float) -> None:
        queued = 0
        stalest: Channel | None = None
        for stream in list(self.session.streams.values()):
            channel: Channel = stream.owner
            channel.sink.on_tick()
            if not (stream.may_send and stream.may_receive) and now - channel.moved_at > HALF_CLOSED_IDLE:
                self.kill(channel)
            elif excess := channel.queued - QUEUE_FREE:
                queued += max(0, excess)
                if excess > 0 and (stalest is None or channel.moved_at < stalest.moved_at):
                    stalest = channel
        if queued > QUEUE_BUDGET and stalest is not None and now - stalest.moved_at > QUEUE_STALL:
            self.kill(stalest)

    def kill(self, channel: Channel) -> None:
        """Reset a stream from our side, and tell its sink as if the peer had."""
        sink = channel.sink
        channel.reset()
        sink.on_reset()

    @staticmethod
    def _gone(channel: Channel) -> None:
        """The stream is closed already; its sink is told, once."""
        channel.drop_queue()
        sink, channel.sink, channel.feeder = channel.sink, NOBODY, NOBODY
        sink.on_reset()

    def _on_goaway(self, code: int) -> None:
        if code != GoAwayCode.NORMAL:
            self._end(f"the peer closed the session: {describe_code(code)}", code)
            self.connection.close()
        else:
            if self._on_drain is not None:
                self._on_drain(self)
            if not self.session.streams:
                self.engine.loop.call_soon(self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self.closed and not self.session.streams:
            self.close(GoAwayCode.NORMAL, "the peer drained the session")

    def _broken(self, error: RemoteError) -> None:
        self.close(error.code, str(error))

    # -- writing ---------------------------------------------------------------------------------------------------

    def write_frame(self, frame: memoryview) -> None:
        """A large frame, from where it lies, behind what is in the outbox."""
        if self.session.outbox:
            self._flush()
        self.connection.write(frame)

    def flush_in_turn(self) -> None:
        """Write the outbox: at once the first time in a turn of the loop, what comes later in one write at its end."""
        if not self._wrote_in_turn:
            self._wrote_in_turn = True
            self.engine.loop.call_soon(self._turn_ended)
            self._flush()

    def _turn_ended(self) -> None:
        self._wrote_in_turn = False
        self._flush()

    def _flush(self) -> None:
        if self.session.outbox and not self.connection.blocked and not self.closed:
            self.connection.write(self.session.take_outbox())

    def wait(self, channel: Channel, *, first: bool) -> None:
        """Call `channel.resume` when the link takes bytes, in the next turn at the soonest."""
        if first:
            self._waiting.appendleft(channel)
        else:
            self._waiting.append(channel)
        if not self.connection.blocked and not self._serving:
            self._serving = True
            self.engine.loop.call_soon(self._serve_in_turn)

    def _serve_in_turn(self) -> None:
        self._serving = False
        self._serve()
        self.engine.settle()

    def stream_moved(self, channel: Channel) -> None:
        """A stream may have ended: a draining session ends with its last one."""
        self.engine.touch(self)
        if not channel.stream.state and not self.session.streams:
            if self._drained is not None and not self._drained.done():
                self._drained.set_result(None)
            elif self.session.goaway_received and not self.closed:
                self.engine.loop.call_soon(self._close_if_idle)
