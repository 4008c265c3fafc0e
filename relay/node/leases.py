"""This node's leases: asked for by the doors, written in the background, many in one hop to a thread.

A lease is closed for certain: what cannot be written now is tried again, and at worst the node's own end closes it (a
lease is live only while its node's record is unexpired at the same epoch).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Final

from nodes.facts import Lease
from relay.node.runtime import Runtime
from relay.protocol.errors import GoAwayCode
from tunnelmesh.common.errors import DomainError

log = logging.getLogger(__name__)

BATCH: Final = 64
OPEN_DEADLINE: Final = 10.0
END_DEADLINE: Final = 5.0
RETRY: Final = 1.0
UNAVAILABLE: Final = "database_unavailable"
TRANSIENT: Final = frozenset({UNAVAILABLE, "overloaded"})


def close_reason(code: int | None) -> str:
    """Why a session ended, in one word: the name of a GOAWAY code of ours, `lost` without one, `foreign` for others."""
    if code is None:
        return "lost"
    return GoAwayCode(code).name.lower() if code in set(GoAwayCode) else "foreign"


@dataclass(slots=True)
class _Open:
    agent_id: str
    connection_id: str
    done: asyncio.Future[Lease]


@dataclass(slots=True)
class _Close:
    lease: Lease
    reason: str


class Leases:
    """Opens and closes the leases of this node. `run` must be running."""

    def __init__(self, runtime: Runtime) -> None:
        self._registry = runtime.registry
        self._threads = runtime.threads
        self._me = runtime.me
        self._waiting: list[_Open | _Close] = []
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def open(self, agent_id: str, connection_id: str) -> Lease:
        """A new lease with the newest generation. Raises Conflict (`stale_epoch`) and other DomainErrors."""
        done: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self._add(_Open(agent_id, connection_id, done))
        try:
            async with asyncio.timeout(OPEN_DEADLINE):
                return await done
        except TimeoutError:
            self._give_back(done)
            raise DomainError("too_slow", f"no lease from the database within {OPEN_DEADLINE:g} s") from None
        except asyncio.CancelledError:
            self._give_back(done)
            raise

    def _give_back(self, done: asyncio.Future[Lease]) -> None:
        """Who asked leaves in the very turn of the loop in which the lease has come."""
        if done.done() and not done.cancelled() and done.exception() is None:
            self.close(done.result(), "abandoned")

    def close(self, lease: Lease, reason: str) -> None:
        """Close `lease`, soon."""
        self._add(_Close(lease, reason))

    async def end(self, reason: str) -> None:
        """Close every lease of this node, behind those that are being closed for a reason of their own. Raises
        DomainError; the leases then end with the node's record."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_DEADLINE):
                await self._idle.wait()
        await self._threads.run(self._registry.close_node_leases, self._me.node_id, epoch=self._me.epoch, reason=reason)

    async def run(self) -> None:
        """Write what is waiting, in order, until cancelled."""
        while True:
            await self._wake.wait()
            if not await self._write_batch():
                await asyncio.sleep(RETRY)

    async def _write_batch(self) -> bool:
        """False when some of it has to be tried again."""
        batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        if not self._waiting:
            self._wake.clear()
        try:
            results = await self._threads.run_to_end(self._write, batch)
        except DomainError as error:
            results = [error] * len(batch)
        again = [act for act, result in zip(batch, results, strict=True) if not self._settle(act, result)]
        if again:
            self._waiting[:0] = again
            self._wake.set()
        if not self._waiting:
            self._idle.set()
        return not again

    def _write(self, batch: list[_Open | _Close]) -> list[Lease | DomainError]:
        """In a thread. Without a database the rest is not tried: each would wait for its own timeout."""
        results: list[Lease | DomainError] = []
        for act in batch:
            away = results and isinstance(results[-1], DomainError) and results[-1].code == UNAVAILABLE
            results.append(results[-1] if away else self._write_one(act))
        return results

    def _write_one(self, act: _Open | _Close) -> Lease | DomainError:
        try:
            if isinstance(act, _Close):
                self._registry.close_lease(act.lease.connection_id, generation=act.lease.generation, reason=act.reason)
                return act.lease
            return self._registry.open_lease(
                self._me.node_id, epoch=self._me.epoch, agent_id=act.agent_id, connection_id=act.connection_id
            )
        except DomainError as error:
            return error

    def _settle(self, act: _Open | _Close, result: Lease | DomainError) -> bool:
        """Tell who waits; False to try again. Whoever asked for a lease and left does not keep it."""
        if isinstance(act, _Close):
            return not (isinstance(result, DomainError) and result.code in TRANSIENT)
        if act.done.done():
            if isinstance(result, Lease):
                self.close(result, "abandoned")
        elif isinstance(result, Lease):
            act.done.set_result(result)
        else:
            act.done.set_exception(result)
        return True

    def _add(self, act: _Open | _Close) -> None:
        self._waiting.append(act)
        self._idle.clear()
        self._wake.set()
