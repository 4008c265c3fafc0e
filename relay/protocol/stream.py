"""One stream of a session: its state table and its two windows.

Theory. A stream is two independent halves, ours (sending) and the peer's (receiving); FIN ends one, RST ends both.
So there are four states, and four acts in each direction. What is not in the table is illegal: our own act raises
LocalError, the peer's raises RemoteError, and nothing changes. SYN and ACK are not states: yamux lets data flow before
the ACK, so they are flags that ride on the first frame.

    state \\ act            SEND_DATA  SEND_FIN       RECV_DATA  RECV_FIN       RST (either side)
    OPEN                   OPEN       LOCAL_FINISHED OPEN       REMOTE_FINISHED CLOSED
    LOCAL_FINISHED         -          -              same       CLOSED          CLOSED
    REMOTE_FINISHED        same       CLOSED         -          -               CLOSED
    CLOSED (retired)       -          -              ignored    ignored         ignored
"""

from __future__ import annotations

from typing import Any, Final

from relay.protocol.limits import INITIAL_WINDOW
from relay.protocol.window import ReceiveWindow


class State:
    """States as plain integers: they are looked up for every frame."""

    CLOSED: Final = 0
    LOCAL_FINISHED: Final = 1
    REMOTE_FINISHED: Final = 2
    OPEN: Final = 3


class Act:
    """What may happen to a stream."""

    SEND_DATA: Final = 0
    SEND_FIN: Final = 1
    RECV_DATA: Final = 2
    RECV_FIN: Final = 3
    RESET: Final = 4


TABLE: Final[dict[tuple[int, int], int]] = {
    (State.OPEN, Act.SEND_DATA): State.OPEN,
    (State.OPEN, Act.SEND_FIN): State.LOCAL_FINISHED,
    (State.OPEN, Act.RECV_DATA): State.OPEN,
    (State.OPEN, Act.RECV_FIN): State.REMOTE_FINISHED,
    (State.OPEN, Act.RESET): State.CLOSED,
    (State.LOCAL_FINISHED, Act.RECV_DATA): State.LOCAL_FINISHED,
    (State.LOCAL_FINISHED, Act.RECV_FIN): State.CLOSED,
    (State.LOCAL_FINISHED, Act.RESET): State.CLOSED,
    (State.REMOTE_FINISHED, Act.SEND_DATA): State.REMOTE_FINISHED,
    (State.REMOTE_FINISHED, Act.SEND_FIN): State.CLOSED,
    (State.REMOTE_FINISHED, Act.RESET): State.CLOSED,
}


class Stream:
    """Owned by its session; nobody else writes its fields but `owner`, which is the user's to set."""

    __slots__ = ("accepted", "first_flags", "id", "owner", "receive_window", "send_window", "state")

    def __init__(self, stream_id: int, *, first_flags: int, accepted: bool, now: float) -> None:
        self.id = stream_id
        self.state: int = State.OPEN
        self.send_window = INITIAL_WINDOW
        """Bytes that we may send now."""
        self.receive_window = ReceiveWindow(now)
        self.first_flags = first_flags
        """SYN until the first frame has gone out, then 0."""
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
        return (self.state, Act.SEND_DATA) in TABLE

    @property
    def may_receive(self) -> bool:
        """False after the peer's FIN or a reset."""
        return (self.state, Act.RECV_DATA) in TABLE
