"""The stream ids of a session: ours ascend, the peer's are new once and then used, none is used twice.

Our parity: ids are taken in order and announced (their SYN goes out) in order. The peer's: whatever lies above the
highest used id is new; below it, what the peer skipped lately. A used id is live or retired, which the session knows.
"""

from __future__ import annotations

from typing import Final

from relay.protocol.errors import RemoteError
from relay.protocol.limits import MAX_STREAM_ID

REORDER: Final = 256
"""Ids that the peer may skip and still use later. hashicorp/yamux and its libp2p fork take the id and send the SYN in
two steps, so streams that several goroutines open at once may show up out of order."""


class StreamIds:
    """Ids of both parities: the client's are odd. `first` is our first one."""

    __slots__ = ("_announced", "_ours", "_peer_last", "_peer_skipped", "_taken")

    def __init__(self, *, client: bool, first: int | None = None) -> None:
        self._ours = int(client)
        self._taken = self._announced = (first if first is not None else 2 - client) - 2
        self._peer_last = client - 1
        self._peer_skipped: set[int] = set()

    @property
    def exhausted(self) -> bool:
        """True when all of ours have been taken."""
        return self._taken + 2 > MAX_STREAM_ID

    def take(self) -> int:
        """Our next id. Not to be called when `exhausted`."""
        self._taken += 2
        return self._taken

    def announce(self, stream_id: int) -> range:
        """The SYN of `stream_id` goes out; the ids below it that have been taken and not announced, which go first."""
        earlier = range(self._announced + 2, stream_id, 2)
        self._announced = stream_id
        return earlier

    def judge_new(self, stream_id: int) -> None:
        """Raise RemoteError unless the peer may open a stream under this id."""
        if stream_id & 1 == self._ours:
            raise RemoteError(f"peer opened stream {stream_id}, which has our parity")
        if stream_id <= self._peer_last and stream_id not in self._peer_skipped:
            raise RemoteError(f"peer opened stream {stream_id} again")

    def judge_used(self, stream_id: int) -> None:
        """Raise RemoteError for an id above all that have been used: only a SYN could honestly carry it."""
        highest = self._announced if stream_id & 1 == self._ours else self._peer_last
        if stream_id > highest:
            raise RemoteError(f"frame for stream {stream_id}, which was never opened")

    def use(self, stream_id: int) -> None:
        """The peer's id, which is new, is used from now on."""
        if stream_id < self._peer_last:
            self._peer_skipped.remove(stream_id)
            return
        if stream_id > self._peer_last + 2:
            oldest = stream_id - 2 * REORDER
            kept = {skipped for skipped in self._peer_skipped if skipped >= oldest}
            self._peer_skipped = kept.union(range(max(self._peer_last + 2, oldest), stream_id, 2))
        self._peer_last = stream_id
