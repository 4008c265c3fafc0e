"""One multiplexed session on a connection: bytes go to the protocol, events to channels, frames to the socket.

An exception in what the owner of a stream does is logged and ends that stream; the session and its other streams go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from relay.net.channel import NOBODY, Channel, Sink
from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.net.heads import AnswerReader, HeadReader, Holder
from relay.net.patience import hopeless
from relay.net.splice import splice
from relay.net.turns import Turns
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

log = logging.getLogger(__name__)

ROOM: Final = 64 * 1024
"""Small frames that may overtake the waiting streams while the link is blocked."""
GATHER: Final = 0.0001
"""Seconds since the last write within which small frames are gathered until the end of the turn. Gathering always would
cost each lone frame a turn of the loop; never, a TLS record and a system call for each frame of many."""
WRITE_STALL: Final = 30.0
"""Seconds without one byte accepted by the socket while data waits: the peer only talks (faults.md, section 4)."""

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
        self.session = Session(client=client, now=engine.now(), limits=limits)
        self.dirty = False
        self.closed = False
        self._on_stream = on_stream
        self._on_closed = on_closed
        self._on_drain = on_drain
        self._turns = Turns(engine, connection, self._resume)
        self._gathering = False
        self._wrote_at = 0.0
        self._drained: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Adopt the connection; from here on the session lives until `on_closed`."""
        self.engine.muxes.add(self)
        self.connection.start(self)
        self.on_tick(self.engine.now())
        self.engine.settle()

    # -- acts ------------------------------------------------------------------------------------------------------

    @property
    def can_open(self) -> bool:
        """False when a new session must be dialled for new streams."""
        return self.session.can_open and not self.connection.closed

    @property
    def active(self) -> int:
        """Streams that are open now."""
        return len(self.session.streams)

    def open(self, request: ConnectRequest, on_answer: OnAnswer, timeout: float, early: bytes = b"") -> None:
        """Open a stream, with `early` bytes behind its head; `on_answer` gets the channel after the 200, or the
        problem, within `timeout` seconds. Raises LocalError unless `can_open`, and BadHead."""
        head = request.encode()
        channel = self._channel()
        channel.sink = AnswerReader(channel, on_answer, self.engine.seen + timeout)
        channel.send_bytes(head + early)

    def relay(self, incoming: Channel, request: ConnectRequest) -> None:
        """Continue a peer's stream on this session: the answer and all that follows pass through as bytes."""
        head = request.encode()
        if incoming.stream.state:
            splice(incoming, self._channel(), head)

    def _channel(self) -> Channel:
        self.engine.seen = now = self.engine.now()
        stream = self.session.open(now)
        stream.owner = channel = Channel(self, stream, NOBODY, now)
        return channel

    async def drain(self, seconds: float) -> None:
        """Refuse new streams, wait until the open ones have ended and their bytes have gone or `seconds` are over, then
        close."""
        if self.closed:
            return
        self.session.goaway(GoAwayCode.NORMAL)
        self.engine.touch(self)
        self.engine.settle()
        drained = self._drained = self._drained or self.engine.loop.create_future()
        self._end_if_drained()
        await asyncio.wait([drained], timeout=seconds)
        self.close(GoAwayCode.NORMAL, "drained")

    def close(self, code: GoAwayCode, reason: str) -> None:
        """Tell the peer why, reset every stream, and close the connection."""
        if not self.closed:
            self.session.goaway(code)
            last_words = self.session.take_outbox()
            self._end(reason, code)
            self.connection.close(last_words)
            self.engine.settle()

    def kill(self, channel: Channel) -> None:
        """Reset a stream from our side, and tell its sink as if the peer had."""
        sink = channel.sink
        channel.reset()
        _tell_reset(sink)

    def _end(self, reason: str, code: int | None) -> None:
        self.closed = True
        self.engine.muxes.discard(self)
        for stream in self.session.end():
            self._gone(stream.owner)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        try:
            self._on_closed(self, reason, code)
        except Exception:
            log.exception("the owner of a session failed when told of its end")

    # -- the connection's events -----------------------------------------------------------------------------------

    def on_bytes(self, start: int, end: int) -> None:
        """Plaintext for this session lies in the engine's buffer."""
        engine = self.engine
        buffer = engine.received
        engine.seen = now = engine.now()
        try:
            for event in self.session.receive(buffer, start, end, now):
                try:
                    if isinstance(event, DataReceived):
                        channel: Channel = event.stream.owner
                        channel.moved_at = now
                        channel.sink.on_data(buffer, event.start, event.end)
                    else:
                        self._on_event(event)
                except Exception:
                    log.exception("the owner of a stream failed at %s", type(event).__name__)
                    if not isinstance(event, GoAwayReceived) and event.stream.state:
                        self.kill(event.stream.owner)
                if self.closed:
                    break
            if self.session.outbox:
                engine.touch(self)
        except RemoteError as error:
            self.close(error.code, str(error))
        except Exception:
            log.exception("a session is closed: it failed itself")
            self.close(GoAwayCode.INTERNAL_ERROR, "internal error")
        engine.settle()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, StreamFinished):
            channel: Channel = event.stream.owner
            channel.sink.on_finish()
            self.stream_moved(channel)
        elif isinstance(event, StreamOpened):
            event.stream.owner = channel = Channel(self, event.stream, NOBODY, self.engine.seen)
            channel.sink = HeadReader(channel, self._on_stream)
        elif isinstance(event, CreditReceived):
            event.stream.owner.resume()
        elif isinstance(event, StreamReset):
            channel = event.stream.owner
            self._gone(channel)
            self.stream_moved(channel)
        elif isinstance(event, GoAwayReceived):
            self._on_goaway(event.code)

    def on_writable(self) -> None:
        """The link takes bytes again: control and small frames first, then the waiting streams."""
        self.engine.seen = self.engine.now()
        self._flush()
        self._turns.link_is_free()
        self._end_if_drained()
        self.engine.settle()

    def on_lost(self, reason: str) -> None:
        """The connection has ended without a word."""
        if not self.closed:
            self._end(reason, None)
            self.engine.settle()

    def on_tick(self, now: float) -> None:
        """Once a second: keepalive, write stall, and what streams may take in time and memory."""
        self.engine.seen = now
        self.connection.on_tick()
        try:
            self.session.on_time(now)
        except RemoteError as error:
            self.close(error.code, str(error))
            return
        if self.session.outbox:
            self.engine.touch(self)
        if self.connection.blocked and now - self.connection.written_at > WRITE_STALL:
            self.close(GoAwayCode.WRITE_STALL, f"the peer took nothing for {WRITE_STALL:g} s")
            return
        channels: list[Channel] = [stream.owner for stream in self.session.streams.values()]
        for channel in channels:
            self._let(channel, channel.sink.on_tick)
        for channel in hopeless(channels, now):
            self.kill(channel)

    def _let(self, channel: Channel, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            log.exception("the owner of stream %d failed", channel.stream.id)
            self.kill(channel)

    @staticmethod
    def _gone(channel: Channel) -> None:
        """The stream is closed already; its sink is told, once."""
        sink = channel.sink
        channel.let_go()
        _tell_reset(sink)

    def _on_goaway(self, code: int) -> None:
        if code != GoAwayCode.NORMAL:
            self._end(f"the peer closed the session: {describe_code(code)}", code)
            self.connection.close()
            return
        self._end_if_drained()
        if self._on_drain is not None:
            self._on_drain(self)

    # -- the end of a drain ----------------------------------------------------------------------------------------

    def stream_moved(self, channel: Channel) -> None:
        """A stream may have ended: a draining session ends with its last one."""
        self.engine.touch(self)
        if not channel.stream.state:
            # What is held was sent before the end, and is still to be handed over.
            if not isinstance(channel.sink, Holder):
                channel.let_go()
            if not self.session.streams:
                self._end_if_drained()

    @property
    def _is_drained(self) -> bool:
        return not (self.session.streams or self.connection.blocked or self.closed)

    def _end_if_drained(self) -> None:
        if not self._is_drained:
            return
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        elif self.session.goaway_received:
            self.engine.loop.call_soon(self._close_if_drained)

    def _close_if_drained(self) -> None:
        if self._is_drained:
            self.close(GoAwayCode.NORMAL, "the peer drained the session")

    # -- writing ---------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether a small frame may overtake the streams that wait for the blocked link."""
        return len(self.session.outbox) < ROOM and not self._turns.owed

    def write_frame(self, frame: memoryview) -> None:
        """A large frame, from where it lies, behind what is in the outbox."""
        if self.session.outbox:
            self._flush()
        self.connection.write(frame)

    def flush_in_turn(self) -> None:
        """Write the outbox: at once, or, if that was done a moment ago, at the end of this turn of the loop with all
        that comes until then."""
        if self._gathering:
            return
        now = self.engine.now()
        if now - self._wrote_at < GATHER:
            self._gathering = True
            self.engine.loop.call_soon(self._turn_ended)
        else:
            self._wrote_at = now
            self._flush()

    def _turn_ended(self) -> None:
        self._gathering = False
        self._wrote_at = self.engine.now()
        self._flush()

    def _flush(self) -> None:
        if self.session.outbox and not self.connection.blocked and not self.closed:
            self.connection.write(self.session.take_outbox())

    def wait(self, channel: Channel) -> None:
        """Have `channel.resume` called when the link takes bytes again."""
        self._turns.wait(channel)

    def _resume(self, channel: Channel) -> None:
        self._let(channel, channel.resume)


def _tell_reset(sink: Sink) -> None:
    try:
        sink.on_reset()
    except Exception:
        log.exception("the owner of a stream failed when told of its end")
