"""The sessions of other nodes that have dialled this one: one for each node, of its newest process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from relay.net.mux import Mux
from relay.node.agents import DRAINING_SESSIONS
from relay.protocol.errors import GoAwayCode


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """A node's session; `epoch` is what it was admitted with."""

    node_id: str
    epoch: int
    mux: Mux


class Callers:
    """The sessions that are up."""

    def __init__(self) -> None:
        self._callers: list[Caller] = []

    def __len__(self) -> int:
        return len(self._callers)

    def __iter__(self) -> Iterator[Caller]:
        return iter(list(self._callers))

    def add(self, caller: Caller) -> None:
        """Take a session in. An older process's is closed as stale, an older one of the same process as superseded
        unless it drains, and of those that drain the oldest beyond `DRAINING_SESSIONS`; when two admissions overtook
        each other the stale one may be the new one."""
        self._callers.append(caller)
        same_node = [other for other in self._callers if other.node_id == caller.node_id]
        epoch = max(other.epoch for other in same_node)
        newest = [other for other in same_node if other.epoch == epoch][-1]
        draining = [other for other in same_node if other is not newest and not other.mux.can_open]
        for other in same_node:
            if other.epoch < epoch:
                other.mux.close(GoAwayCode.STALE_EPOCH, f"a newer process has epoch {epoch}")
            elif other is not newest and other.mux.can_open:
                other.mux.close(GoAwayCode.SUPERSEDED, "superseded by a newer session")
        for other in draining[:-DRAINING_SESSIONS]:
            other.mux.close(GoAwayCode.SUPERSEDED, f"more than {DRAINING_SESSIONS} sessions of this node drain")

    def remove(self, mux: Mux) -> None:
        """The session has ended."""
        self._callers = [caller for caller in self._callers if caller.mux is not mux]
