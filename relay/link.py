"""A link keeps one session to one acceptor: it dials, watches, and dials again with full jitter (faults.md, R4, R6).

The agent has one to each of its servers, a node one to each node that it relays to.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from relay.net.backoff import Backoff
from relay.net.dialer import DialFailed
from relay.net.mux import Mux
from relay.protocol.errors import GoAwayCode
from tunnelmesh.common.clock import Clock

log = logging.getLogger(__name__)

GOOD_SESSION: Final = 30.0
"""Seconds after which a session counts as good: the backoff begins anew, and after a drain it dials at once."""
BETWEEN_DIALS: Final = 1.0
"""Seconds between the beginnings of two dials that somebody's need has caused."""
SLOW_CODES: Final = frozenset({GoAwayCode.SUPERSEDED})
"""Ends that dialling at once would only repeat: two processes with one identity would throw each other out for ever."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a session takes no more streams. `code` is the GOAWAY code, 0 for a drain, None when it was simply lost."""

    reason: str
    code: int | None

    def __str__(self) -> str:
        return self.reason


Down = Ended | DialFailed


class LinkOwner(Protocol):
    """Who makes a link's sessions and is told of its changes."""

    async def connect(self, over: Callable[[Ended], None]) -> Mux:
        """Dial and start a session; call `over` when it takes no more streams. Raises DialFailed."""

    def link_up(self, session: Mux) -> None:
        """`session` takes streams."""

    def link_down(self, why: Down, pause: float) -> None:
        """There is no session; the next dial is in `pause` seconds."""


class Link:
    """`session` is the one that takes new streams, or None; `down` is why there is none, or None."""

    def __init__(
        self, owner: LinkOwner, *, clock: Clock, backoff: Backoff, jitter: Callable[[], float] = random.random
    ) -> None:
        self.session: Mux | None = None
        self.down: Down | None = None
        self._owner = owner
        self._clock = clock
        self._backoff = backoff
        self._jitter = jitter
        self._dialling = False
        self._dialled_at = float("-inf")
        self._nudged = asyncio.Event()

    async def run(self) -> None:
        """Keep the session, until cancelled."""
        while True:
            pause = await self._one_session()
            if pause:
                await self._wait(pause)

    def nudge(self) -> bool:
        """Somebody needs the session: dial now instead of after the pause. False while that would only repeat the last
        dial: it began less than a second ago, or its failure is of the permanent kind."""
        if self._dialling or self.session is not None:
            return True
        if isinstance(self.down, DialFailed) and self.down.permanent:
            return False
        if self._clock.monotonic() - self._dialled_at < BETWEEN_DIALS:
            return False
        self.redial()
        return True

    def redial(self) -> None:
        """Cut the pause short, the next one if there is none now: the facts have changed."""
        self._nudged.set()

    async def _one_session(self) -> float:
        """Dial once and hold what comes of it; the pause before the next dial."""
        over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._nudged.clear()
        self._dialling, self._dialled_at = True, self._clock.monotonic()
        try:
            session = await self._dial(over)
        except DialFailed as failure:
            return self._is_down(failure, self._backoff.delay(self._jitter(), permanent=failure.permanent))
        finally:
            self._dialling = False
        began = self._clock.monotonic()
        if not over.done():
            self.session, self.down = session, None
            self._owner.link_up(session)
        try:
            ended = await over
        finally:
            self.session = None
        return self._is_down(ended, self._pause_after(ended, self._clock.monotonic() - began))

    async def _dial(self, over: asyncio.Future[Ended]) -> Mux:
        try:
            return await self._owner.connect(lambda ended: None if over.done() else over.set_result(ended))
        except DialFailed:
            raise
        except Exception as error:
            # A link that died of a surprise would never be dialled again (R6); it is reported and counts as a failure.
            log.exception("dialling failed in an unforeseen way")
            raise DialFailed("connect", f"unforeseen: {error!r}") from error

    def _pause_after(self, ended: Ended, lasted: float) -> float:
        if lasted >= GOOD_SESSION:
            self._backoff.reset()
            if ended.code == GoAwayCode.NORMAL:
                return 0.0
        return self._backoff.delay(self._jitter(), permanent=ended.code in SLOW_CODES)

    def _is_down(self, why: Down, pause: float) -> float:
        self.down = why
        self._owner.link_down(why, pause)
        return pause

    async def _wait(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._nudged.wait()
        except TimeoutError:
            pass
