"""One stream as the shell sees it: bytes that come in go to its `sink`, bytes that cannot go out now wait in its queue.

The queue holds at most what the stream's source was granted, one window (promise P10). It empties when the peer grants
credit or the link takes bytes again; what has gone is reported to the `feeder`, which returns the credit of its hop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from relay.protocol.connect import OK
from relay.protocol.limits import HEADER_SIZE, MAX_FRAME
from relay.protocol.problem import Problem
from relay.protocol.stream import SENDING, Stream

if TYPE_CHECKING:
    from relay.net.mux import Mux

SMALL: Final = 8 * 1024
"""Payload below this is gathered with other small frames; above it is written from where it lies."""


class Sink(Protocol):
    """Who takes what comes in on a stream, and returns its credit with `Channel.consumed`."""

    @property
    def queued(self) -> int:
        """Bytes that have come in and wait here."""

    def on_data(self, buffer: memoryview, start: int, end: int) -> None:
        """Payload at `buffer[start:end]`, valid until the call returns. The twelve bytes before may be overwritten."""

    def on_finish(self) -> None:
        """The peer has sent its last byte."""

    def on_reset(self) -> None:
        """The stream is gone, by RST or with its session."""

    def on_tick(self) -> None:
        """Once a second."""


class Feeder(Protocol):
    """Who gives a stream what goes out."""

    def on_sent(self, count: int) -> None:
        """`count` bytes have left the queue."""

    def on_writable(self) -> None:
        """The queue is empty and the stream can take bytes again."""


class Nobody:
    """The sink of a stream that has been refused or reset: takes everything, keeps nothing."""

    queued = 0

    def on_data(self, buffer: memoryview, start: int, end: int) -> None:
        pass

    def on_finish(self) -> None:
        pass

    def on_reset(self) -> None:
        pass

    def on_tick(self) -> None:
        pass

    def on_sent(self, count: int) -> None:
        pass

    def on_writable(self) -> None:
        pass


NOBODY: Final = Nobody()


class Channel:
    """A live stream of `mux`. Every method may be called on a channel whose stream has ended; then it does nothing."""

    __slots__ = ("feeder", "finishing", "moved_at", "mux", "queue", "queue_moved_at", "sink", "stream", "waiting")

    def __init__(self, mux: Mux, stream: Stream, sink: Sink, now: float) -> None:
        self.mux = mux
        self.stream = stream
        self.sink = sink
        self.feeder: Feeder = NOBODY
        self.queue: bytearray | None = None
        self.finishing = False
        """True when FIN is to follow the queue."""
        self.waiting = False
        """True while the mux will call `resume` when the link takes bytes again."""
        self.moved_at = now
        """When this stream last carried a byte, either way."""
        self.queue_moved_at = now
        """When what waits, here or at the sink, began to wait or last became less."""

    # -- outwards --------------------------------------------------------------------------------------------------

    def room(self, *, small: bool) -> int:
        """Payload that one `send` would take now. While the link is blocked only a source of small pieces gets some:
        it must not wait behind the bulk of others."""
        stream = self.stream
        if not stream.state & SENDING or self.queue is not None:
            return 0
        if self.mux.connection.blocked:
            if not small or not self.mux.has_room:
                return 0
            return min(stream.send_window, SMALL - 1)
        return min(stream.send_window, MAX_FRAME - HEADER_SIZE)

    def send(self, buffer: memoryview, start: int, end: int) -> None:
        """Send `buffer[start:end]`, at most what `room` has just said; the twelve bytes before it are overwritten."""
        mux, stream = self.mux, self.stream
        if not stream.accepted:
            mux.session.accept(stream)
        mux.session.send_data(stream, buffer, start, end)
        self.moved_at = mux.engine.seen
        if end - start < SMALL:
            mux.session.outbox += buffer[start - HEADER_SIZE : end]
            mux.engine.touch(mux)
        else:
            mux.write_frame(buffer[start - HEADER_SIZE : end])

    def forward(self, buffer: memoryview, start: int, end: int) -> int:
        """Send what can go now, in place, and queue the rest; how many bytes went."""
        size = end - start
        count = self.room(small=size < SMALL)
        if count >= size:
            self.send(buffer, start, end)
            return size
        if count:
            self.send(buffer, start, start + count)
        if self.stream.state:
            if self.queue is None:
                self.queue = bytearray()
                self.queue_moved_at = self.mux.engine.seen
            self.queue += buffer[start + count : end]
            self.wait()
        return count

    def send_bytes(self, data: bytes) -> None:
        """Send or queue a few bytes of our own: a head."""
        buffer = bytearray(HEADER_SIZE + len(data))
        buffer[HEADER_SIZE:] = data
        self.forward(memoryview(buffer), HEADER_SIZE, len(buffer))

    def finish(self) -> None:
        """No more bytes will be given: FIN follows the queue."""
        if self.queue is None:
            if self.stream.may_send:
                self.mux.session.finish(self.stream)
                self.mux.stream_moved(self)
        else:
            self.finishing = True

    def reset(self) -> None:
        """End the stream at once, both ways."""
        live = self.stream.state
        if live:
            self.mux.session.reset(self.stream)
        self.let_go()
        if live:
            self.mux.stream_moved(self)

    def wait(self) -> None:
        """Have `resume` called when there may be room again. Without credit it is the peer's grant that does it."""
        if not self.waiting and self.stream.send_window:
            self.waiting = True
            self.mux.wait(self)

    def resume(self) -> None:
        """The link takes bytes again, or the peer has granted credit."""
        if self.queue is not None:
            self._drain(self.queue)
        elif self.stream.state:
            self.feeder.on_writable()

    def _drain(self, queue: bytearray) -> None:
        count = min(len(queue), self.stream.send_window, MAX_FRAME - HEADER_SIZE)
        if self.mux.connection.blocked and (count >= SMALL or not self.mux.has_room):
            count = 0
        if count:
            frame = self.mux.engine.frame
            frame[HEADER_SIZE : HEADER_SIZE + count] = queue[:count]
            self.send(frame, HEADER_SIZE, HEADER_SIZE + count)
            del queue[:count]
            self.queue_moved_at = self.mux.engine.seen
        if queue:
            self.wait()
        else:
            self.queue = None
        if count:
            self.feeder.on_sent(count)
        if self.queue is None and self.stream.state:
            self._emptied()

    def _emptied(self) -> None:
        if self.finishing:
            self.finishing = False
            self.finish()
        else:
            self.feeder.on_writable()

    def let_go(self) -> None:
        """The stream has ended: forget what has not gone, and everybody else: no cycle is left to the collector."""
        self.queue = None
        self.finishing = False
        self.sink = self.feeder = NOBODY
        self.stream.owner = None

    # -- inwards ---------------------------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """Bytes that wait on either side of this stream."""
        return (0 if self.queue is None else len(self.queue)) + self.sink.queued

    def consumed(self, count: int) -> None:
        """The sink has passed on `count` bytes: return their credit (design.md 3.1, credit is per hop)."""
        if count and self.stream.state:
            mux = self.mux
            mux.session.consumed(self.stream, count, mux.engine.seen)
            if mux.session.outbox:
                mux.engine.touch(mux)

    # -- the answer to a CONNECT -----------------------------------------------------------------------------------

    def accept(self) -> None:
        """Answer 200: the target has been reached."""
        self.send_bytes(OK)

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem and end the stream in an orderly way."""
        self.sink = NOBODY
        self.send_bytes(problem.encode())
        self.finish()
