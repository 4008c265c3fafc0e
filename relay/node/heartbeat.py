"""This node's own standing in the fleet: the heartbeat that keeps its record alive, and what the record says back.

Every two seconds the node asks whether any fact about the fleet has changed, so that it hears within five seconds that
it is fenced, disabled or deleted (design.md, section 3). Without the database it serves on for the grace and no longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from nodes.facts import GRACE_SECONDS, HEARTBEAT_SECONDS, LeaseLoad, Standing
from relay.node.runtime import Runtime
from relay.protocol.errors import GoAwayCode
from tunnelmesh.common.errors import DomainError

log = logging.getLogger(__name__)

LOOK: Final = 2.0
"""Seconds between two looks at the authorisation revision."""
CODES: Final = {
    Standing.FENCED: GoAwayCode.STALE_EPOCH,
    Standing.DISABLED: GoAwayCode.NODE_DISABLED,
    Standing.DELETED: GoAwayCode.NODE_DELETED,
}
"""What sessions are told when the node may no longer serve."""


class Heartbeat:
    """Beats, and judges whether this node may serve. `on_change()` is called after each change of `suspended`."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        loads: Callable[[], list[LeaseLoad]],
        unreachable: Callable[[], Sequence[str]],
        on_change: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._me = runtime.me
        self._loads = loads
        self._unreachable = unreachable
        self._on_change = on_change
        self._written: dict[str, LeaseLoad] = {}
        self._revision: int | None = None
        self._beat_at = self._contact_at = float("-inf")
        self._away = ""
        self._was: str | None = None
        self.standing = Standing.OK
        self.draining = False
        """True once this node ends in good order; said with every beat."""

    @property
    def age(self) -> float:
        """Seconds since the database last answered."""
        return self._runtime.clock.monotonic() - self._contact_at

    @property
    def suspended(self) -> str | None:
        """Why this node may not serve now, or None. Judged anew at each call: a process that has slept finds out before
        its next heartbeat (faults.md, R14)."""
        if self.standing is not Standing.OK:
            return f"this node is {self.standing}"
        if self.age > GRACE_SECONDS:
            return f"no answer from the database for more than {GRACE_SECONDS} s"
        return None

    @property
    def code(self) -> GoAwayCode:
        """What sessions are told while the node is suspended."""
        return CODES.get(self.standing, GoAwayCode.RECORD_EXPIRED)

    async def run(self) -> None:
        """Look and beat until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    async def look(self) -> None:
        """Beat when it is time, when a fact has changed or after an outage; otherwise only ask for changes."""
        registry, threads = self._runtime.registry, self._runtime.threads
        try:
            revision = await threads.run(registry.authorisation_revision)
            due = self._runtime.clock.monotonic() - self._beat_at >= HEARTBEAT_SECONDS
            if due or revision != self._revision or self.age > GRACE_SECONDS:
                await self.beat()
                self._revision = revision
            self._contact()
        except DomainError as error:
            self._lost_contact(error)
        self.judge()

    async def beat(self) -> None:
        """One heartbeat, with the loads that have changed since the last one. Raises DomainError."""
        loads = {load.connection_id: load for load in self._loads()}
        changed = [load for load in loads.values() if self._written.get(load.connection_id) != load]
        result = await self._runtime.threads.run(
            self._runtime.registry.heartbeat,
            self._me.node_id,
            epoch=self._me.epoch,
            loads=changed,
            unreachable_peers=self._unreachable(),
            draining=self.draining,
        )
        self._written = loads
        self._beat_at = self._runtime.clock.monotonic()
        self.standing = result.standing
        self._contact()

    def _contact(self) -> None:
        self._contact_at = self._runtime.clock.monotonic()
        if self._away:
            self._away = ""
            log.info("the database answers again")

    def _lost_contact(self, error: DomainError) -> None:
        if error.code != self._away:
            self._away = error.code
            log.warning("the database does not answer, serving on for up to %d s: %s", GRACE_SECONDS, error.message)

    def judge(self) -> None:
        """Tell of a change of `suspended` since the last call."""
        suspended = self.suspended
        if suspended != self._was:
            self._was = suspended
            log.log(logging.WARNING if suspended else logging.INFO, "%s", suspended or "this node serves again")
            self._on_change()
