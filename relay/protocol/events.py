"""What a session tells its owner. Offsets point into the buffer that was given to `Session.receive`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from relay.protocol.stream import Stream


@dataclass(slots=True)
class StreamOpened:
    """The peer opened a stream; it has been acknowledged and waits in the backlog until `Session.accept`."""

    stream: Stream


@dataclass(slots=True)
class DataReceived:
    """Payload lies at `buffer[start:end]` until the next event is asked for. Its credit is not returned before
    `Session.consumed`."""

    stream: Stream
    start: int
    end: int


@dataclass(slots=True)
class CreditReceived:
    """The peer granted credit: `stream.send_window` has grown."""

    stream: Stream


@dataclass(slots=True)
class StreamFinished:
    """The peer has sent its last byte on this stream (FIN); ours may go on."""

    stream: Stream


@dataclass(slots=True)
class StreamReset:
    """The peer ended the stream at once (RST); it is retired."""

    stream: Stream


@dataclass(slots=True)
class GoAwayReceived:
    """The peer accepts no new streams; with a code other than 0 it also ends the session."""

    code: int


Event: TypeAlias = StreamOpened | DataReceived | CreditReceived | StreamFinished | StreamReset | GoAwayReceived
