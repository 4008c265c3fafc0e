"""Two streams joined in a node: what one receives the other sends, each direction with the credit of its own hop."""

from __future__ import annotations

from relay.net.channel import Channel
from relay.net.heads import attach


class Splice:
    """One direction: the sink of `source` and the feeder of `target`. The credit that `source` returns is for what
    `target` has sent, never for what only waits in its queue, nor for a head of our own that waited there before."""

    __slots__ = ("_own", "source", "target")

    queued = 0
    """What waits is counted where it waits, at the target."""

    def __init__(self, source: Channel, target: Channel, head: bytes = b"") -> None:
        self.source = source
        self.target = target
        self._own = len(head) if target.queue is None else len(head) + len(target.queue)

    def on_data(self, buffer: memoryview, start: int, end: int) -> None:
        self.on_sent(self.target.forward(buffer, start, end))

    def on_finish(self) -> None:
        self.target.finish()

    def on_reset(self) -> None:
        self.target.reset()

    def on_tick(self) -> None:
        pass

    def on_sent(self, count: int) -> None:
        if self._own:
            own = min(count, self._own)
            self._own -= own
            count -= own
        self.source.consumed(count)

    def on_writable(self) -> None:
        pass


def splice(incoming: Channel, outgoing: Channel, head: bytes = b"") -> None:
    """Join two streams; `head` goes first, in one frame with what `incoming` has held behind its own."""
    there, back = Splice(incoming, outgoing, head), Splice(outgoing, incoming)
    attach(outgoing, back, there)
    attach(incoming, there, back, head)
