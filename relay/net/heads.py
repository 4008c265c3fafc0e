"""The beginning of a stream: who reads its CONNECT head or the answer, and holds what comes behind it.

Bytes behind the head belong to whoever takes the stream over; until then they are held, and their credit is not
returned, so at most one window waits (lessons.md: data that arrives while the target is still being dialled).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from relay.net.channel import Channel, Feeder, Sink
from relay.protocol import connect, problem
from relay.protocol.connect import OK, ConnectRequest
from relay.protocol.errors import BadHead
from relay.protocol.heads import MAX_HEAD, find_end
from relay.protocol.limits import HEADER_SIZE
from relay.protocol.problem import Problem

LOST = Problem(502, "reset", "the stream was reset before the target was reached")
LATE = Problem(504, "timeout", "no answer within the time for opening a stream")
HEAD_TIMEOUT: Final = 10.0
"""Seconds from a SYN to its whole CONNECT head, as at the doors."""


class Holder:
    """A sink that collects bytes until `hand_over`."""

    __slots__ = ("channel", "finished", "head_read", "held")

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.held = bytearray()
        self.head_read = False
        self.finished = False

    @property
    def queued(self) -> int:
        """Bytes that wait here."""
        return len(self.held)

    def on_data(self, buffer: memoryview, start: int, end: int) -> None:
        """Collect, until the head is complete and after."""
        self.held += buffer[start:end]
        if not self.head_read:
            self.on_head()

    def on_head(self) -> None:
        """More of the head has come."""

    def on_finish(self) -> None:
        """FIN is passed on when the stream is taken over."""
        self.finished = True

    def on_reset(self) -> None:
        """The stream is gone before anybody took it over."""
        self.held.clear()

    def on_tick(self) -> None:
        """Is it too late?"""

    def head_ends(self, end: int) -> None:
        """The head was `held[:end]`; only its credit is returned, what lies behind it stays."""
        del self.held[:end]
        self.head_read = True
        self.channel.consumed(end)

    def hand_over(self, sink: Sink, head: bytes) -> None:
        """Give `sink` a head and what was held; it returns the credit of what it passes on."""
        if head or self.held:
            buffer = bytearray(HEADER_SIZE) + head + self.held
            sink.on_data(memoryview(buffer), HEADER_SIZE, len(buffer))
        if self.finished:
            sink.on_finish()


class HeadReader(Holder):
    """Reads the CONNECT head of a stream that the peer opened."""

    __slots__ = ("_deadline", "_on_stream")

    def __init__(self, channel: Channel, on_stream: Callable[[Channel, ConnectRequest], None]) -> None:
        super().__init__(channel)
        self._on_stream = on_stream
        self._deadline = channel.moved_at + HEAD_TIMEOUT

    def on_head(self) -> None:
        try:
            end = find_end(self.held, MAX_HEAD)
            request = connect.decode_request(self.held[:end]) if end else None
        except BadHead as error:
            self.channel.refuse(Problem(400, "bad_request", str(error)))
            return
        if request is not None:
            self.head_ends(end)
            self._on_stream(self.channel, request)

    def on_finish(self) -> None:
        super().on_finish()
        if not self.head_read:
            self.channel.reset()

    def on_tick(self) -> None:
        if not self.head_read and self.channel.mux.engine.seen >= self._deadline:
            self.channel.reset()


class AnswerReader(Holder):
    """Reads the answer to our CONNECT, until `deadline`; `on_answer` is called once."""

    __slots__ = ("_body", "_deadline", "_on_answer", "_whole")

    def __init__(self, channel: Channel, on_answer: Callable[[Channel | Problem], None], deadline: float) -> None:
        super().__init__(channel)
        self._on_answer = on_answer
        self._deadline = deadline
        self._body = self._whole = 0
        """Where the body of a refusal begins and ends, once its head has come."""

    def on_head(self) -> None:
        if self.held.startswith(OK):
            self._answered(len(OK))
            return
        try:
            self._read_refusal()
        except BadHead as error:
            self._refused(Problem(502, "bad_answer", str(error)))

    def _read_refusal(self) -> None:
        """Any other answer; its body is awaited, so that the reason is not lost. The head is not parsed again for each
        piece of the body: a piece may be a byte."""
        if not self._body:
            end = find_end(self.held, MAX_HEAD)
            if not end:
                return
            if connect.accepts(self.held[:end]):
                self._answered(end)
                return
            self._body, self._whole = end, end + problem.body_length(self.held[:end])
        if self.finished or len(self.held) >= self._whole:
            self._refused(problem.decode(self.held[: self._body], self.held[self._body : self._whole]))

    def on_finish(self) -> None:
        super().on_finish()
        if not self.head_read:
            self.on_head()
            if not self.head_read:
                self._refused(LOST)

    def on_reset(self) -> None:
        if not self.head_read:
            self._refused(LOST)

    def on_tick(self) -> None:
        if not self.head_read and self.channel.mux.engine.seen >= self._deadline:
            self._refused(LATE)

    def _answered(self, end: int) -> None:
        self.head_ends(end)
        self._on_answer(self.channel)

    def _refused(self, refusal: Problem) -> None:
        self.head_read = True
        self.channel.reset()
        self._on_answer(refusal)


def attach(channel: Channel, sink: Sink, feeder: Feeder, head: bytes = b"") -> None:
    """Let `sink` and `feeder` take the stream over, with what came behind its head, and another head before that."""
    before = channel.sink
    channel.sink, channel.feeder = sink, feeder
    if isinstance(before, Holder):
        before.hand_over(sink, head)
