"""One stream of a session: its state table and its two windows.

Theory. A stream is two independent halves, ours (sending) and the peer's (receiving); FIN ends one, RST ends both. One
state comes before them: a stream that we have opened is IDLE until its SYN goes out, and unknown to the peer. What is
not in the table is illegal: our own act raises LocalError, the peer's raises RemoteError, and nothing changes. ACK and
credit are not in it: they change no state, and are legal in every state that the peer knows of.

    state \\ act            SEND_DATA  SEND_FIN        SEND_RESET  RECV_DATA  RECV_FIN         RECV_RESET
    IDLE                   OPEN       LOCAL_FINISHED  CLOSED      -          -                -
    OPEN                   OPEN       LOCAL_FINISHED  CLOSED      OPEN       REMOTE_FINISHED  CLOSED
    LOCAL_FINISHED         -          -               CLOSED      same       CLOSED           CLOSED
    REMOTE_FINISHED        same       CLOSED          CLOSED      -          -                CLOSED
    CLOSED (retired)       -          -               ignored     ignored    ignored          ignored
"""

from __future__ import annotations

from typing import Any, Final

from relay.protocol.errors import RemoteError
from relay.protocol.frames import FIN, RST, WINDOW_UPDATE
from relay.protocol.limits import INITIAL_WINDOW, MAX_WINDOW
from relay.protocol.window import ReceiveWindow

RECEIVING: Final = 1
"""Bit of a state in which the peer may send."""
SENDING: Final = 2
"""Bit of a state in which we may send."""


class State:
    """States as plain integers, made of the two bits that are looked at for every frame."""

    CLOSED: Final = 0
    LOCAL_FINISHED: Final = RECEIVING
    REMOTE_FINISHED: Final = SENDING
    OPEN: Final = RECEIVING | SENDING
    IDLE: Final = 4 | SENDING


class Act:
    """What may happen to a stream."""

    SEND_DATA: Final = 0
    SEND_FIN: Final = 1
    SEND_RESET: Final = 2
    RECV_DATA: Final = 3
    RECV_FIN: Final = 4
    RECV_RESET: Final = 5


TABLE: Final[dict[tuple[int, int], int]] = {
    (State.IDLE, Act.SEND_DATA): State.OPEN,
    (State.IDLE, Act.SEND_FIN): State.LOCAL_FINISHED,
    (State.IDLE, Act.SEND_RESET): State.CLOSED,
    (State.OPEN, Act.SEND_DATA): State.OPEN,
    (State.OPEN, Act.SEND_FIN): State.LOCAL_FINISHED,
    (State.OPEN, Act.SEND_RESET): State.CLOSED,
    (State.OPEN, Act.RECV_DATA): State.OPEN,
    (State.OPEN, Act.RECV_FIN): State.REMOTE_FINISHED,
    (State.OPEN, Act.RECV_RESET): State.CLOSED,
    (State.LOCAL_FINISHED, Act.SEND_RESET): State.CLOSED,
    (State.LOCAL_FINISHED, Act.RECV_DATA): State.LOCAL_FINISHED,
    (State.LOCAL_FINISHED, Act.RECV_FIN): State.CLOSED,
    (State.LOCAL_FINISHED, Act.RECV_RESET): State.CLOSED,
    (State.REMOTE_FINISHED, Act.SEND_DATA): State.REMOTE_FINISHED,
    (State.REMOTE_FINISHED, Act.SEND_FIN): State.CLOSED,
    (State.REMOTE_FINISHED, Act.SEND_RESET): State.CLOSED,
    (State.REMOTE_FINISHED, Act.RECV_RESET): State.CLOSED,
}


class Stream:
    """Owned by its session; nobody else writes its fields but `owner`, which is the user's to set."""

    __slots__ = ("accepted", "id", "owner", "receive_window", "send_window", "state")

    def __init__(self, stream_id: int, *, state: int, accepted: bool, now: float) -> None:
        self.id = stream_id
        self.state = state
        self.send_window = INITIAL_WINDOW
        """Bytes that we may send now."""
        self.receive_window = ReceiveWindow(now)
        self.accepted = accepted
        """False while an inbound stream waits in the backlog."""
        self.owner: Any = None

    @property
    def open(self) -> bool:
        """False once both halves have ended."""
        return self.state != State.CLOSED

    @property
    def may_send(self) -> bool:
        """False after our FIN or a reset."""
        return bool(self.state & SENDING)

    @property
    def may_receive(self) -> bool:
        """False after the peer's FIN or a reset."""
        return self.state not in (State.CLOSED, State.REMOTE_FINISHED)

    def judge(self, kind: int, flags: int, length: int) -> None:
        """Raise RemoteError unless the peer may send this frame now; nothing changes either way."""
        if self.state == State.IDLE:
            raise RemoteError(f"frame for stream {self.id}, which has not been opened yet")
        if flags & RST:
            return
        if flags & FIN and (self.state, Act.RECV_FIN) not in TABLE:
            raise RemoteError(f"stream {self.id}: FIN twice")
        if kind == WINDOW_UPDATE:
            if self.send_window + length > MAX_WINDOW:
                raise RemoteError(f"stream {self.id}: window of {self.send_window} grows by {length}, past 2^32-1")
        elif length > self.receive_window.credit:
            raise RemoteError(f"stream {self.id}: frame of {length} bytes, the window has {self.receive_window.credit}")
        elif length and (self.state, Act.RECV_DATA) not in TABLE:
            raise RemoteError(f"stream {self.id}: data after FIN")
