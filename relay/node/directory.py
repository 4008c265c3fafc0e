"""Where the agents are: live leases by agent, from the registry, remembered for a second.

A miss is never remembered: an agent that has just come is found by the next stream. While the database is away the last
answer serves on for the grace (design.md, section 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nodes.facts import GRACE_SECONDS
from relay.node.runtime import Runtime
from relay.router import LeaseInfo
from tunnelmesh.common.errors import DomainError

FRESH: Final = 1.0
"""Seconds that an answer is taken for the present."""
AGENTS: Final = 4096
"""Agents that are remembered; beyond it the one that was looked up first is forgotten."""
WAITERS: Final = 1024
"""Streams that may wait for the leases of one agent."""

Found = Callable[["list[LeaseInfo] | DomainError"], None]


@dataclass(frozen=True, slots=True)
class _Known:
    leases: list[LeaseInfo]
    at: float


class Directory:
    """Looks leases up, one query at a time for an agent."""

    def __init__(self, runtime: Runtime) -> None:
        self._registry = runtime.registry
        self._threads = runtime.threads
        self._tasks = runtime.tasks
        self._clock = runtime.clock
        self._known: dict[str, _Known] = {}
        self._looking: dict[str, list[Found]] = {}

    def known(self, agent_id: str) -> list[LeaseInfo] | None:
        """The agent's live leases if they were looked up within the last second, without waiting for anything."""
        known = self._known.get(agent_id)
        return known.leases if known is not None and self._clock.monotonic() - known.at <= FRESH else None

    def forget(self, agent_id: str) -> None:
        """A lease of this agent has proved wrong: look it up the next time."""
        self._known.pop(agent_id, None)

    def look_up(self, agent_id: str, found: Found) -> None:
        """Ask the registry; `found` gets the live leases, none among them, or why they cannot be known."""
        waiting = self._looking.get(agent_id)
        if waiting is None:
            waiting = self._looking[agent_id] = []
            self._tasks.spawn(self._query(agent_id), name=f"leases of {agent_id}")
        if len(waiting) >= WAITERS:
            found(DomainError("overloaded", f"{WAITERS} streams wait for the leases of {agent_id}"))
        else:
            waiting.append(found)

    async def _query(self, agent_id: str) -> None:
        answer: list[LeaseInfo] | DomainError = DomainError("failed", f"the look-up of agent {agent_id} has failed")
        try:
            answer = await self._threads.run(self._registry.live_leases, agent_id)
        except DomainError as error:
            answer = self._last_known(agent_id) or error
        else:
            self._remember(agent_id, answer)
        finally:
            for found in self._looking.pop(agent_id):
                found(answer)

    def _last_known(self, agent_id: str) -> list[LeaseInfo] | None:
        known = self._known.get(agent_id)
        return known.leases if known is not None and self._clock.monotonic() - known.at <= GRACE_SECONDS else None

    def _remember(self, agent_id: str, leases: list[LeaseInfo]) -> None:
        self._known.pop(agent_id, None)
        if leases:
            self._known[agent_id] = _Known(leases, self._clock.monotonic())
            if len(self._known) > AGENTS:
                del self._known[next(iter(self._known))]
