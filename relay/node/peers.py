"""The sessions that this node dials to other nodes: one to each, single-flight, kept warm while it is used.

A peer is known by node id; its address and epoch come from leases. Both sides check the other's certificate, and the
101 must name the node and the epoch that were meant (design.md, section 3).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from relay.bounds import backoff, dial_timeouts, session_limits
from relay.link import Down, Ended, Link
from relay.net import tls
from relay.net.connection import Connection
from relay.net.dialer import Dial, DialFailed, PeerMismatch, dial
from relay.net.mux import Mux
from relay.node.leases import close_reason
from relay.node.runtime import Runtime
from relay.protocol.errors import GoAwayCode
from relay.protocol.problem import Problem
from relay.protocol.upgrade import RELAY, UpgradeRequest
from relay.router import Peer
from tunnelmesh.common.errors import DomainError
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.address import Address

log = logging.getLogger(__name__)

KEPT_WARM: Final = 600.0
"""Seconds since a stream last wanted a peer; afterwards its session is given up once it carries nothing."""
WAITERS: Final = 1024
"""Streams that may wait for a peer that is being dialled."""
STALE: Final = Problem(404, "no_agent", "that node has restarted since the lease was read")
FOREIGN: Final = Problem(403, "forbidden", "the streams of this session are opened by the side that dialled it")

Ready = Callable[["Mux | Problem"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How this node proves itself to its peers. `token` reads the secret anew for every dial (C11)."""

    context: Callable[[], ssl.SSLContext]
    token: Callable[[], Secret]


class Peers:
    """The warm sessions of this node, by the other node's id."""

    def __init__(
        self,
        runtime: Runtime,
        credentials: Credentials,
    ) -> None:
        self.runtime = runtime
        self.credentials = credentials
        self._peers: dict[str, _Peer] = {}

    def __iter__(self) -> Iterator[Mux]:
        """The sessions that take streams."""
        return (peer.link.session for peer in list(self._peers.values()) if peer.link.session is not None)

    def ready(self, hop: Peer) -> Mux | None:
        """The session to exactly this process of that node, when it is up: the fast path of every stream."""
        peer = self._peers.get(hop.node_id)
        return peer.ready(hop) if peer is not None else None

    def ask(self, hop: Peer, ready: Ready) -> None:
        """Have the session dialled; `ready` gets it, or why the stream surely did not leave this node."""
        peer = self._peers.get(hop.node_id)
        if peer is None:
            peer = self._peers[hop.node_id] = _Peer(self, hop)
        peer.ask(hop, ready)

    def unreachable(self) -> list[str]:
        """The nodes that a stream lately wanted and that cannot be dialled."""
        return sorted(name for name, peer in self._peers.items() if isinstance(peer.link.down, DialFailed))

    def tidy(self) -> None:
        """Give up the peers that nobody has wanted for a while."""
        for node_id, peer in list(self._peers.items()):
            if peer.unused():
                del self._peers[node_id]
                session = peer.link.session
                peer.stop()
                if session is not None:
                    session.close(GoAwayCode.NORMAL, "not used any more")

    def stop(self) -> None:
        """Dial no more; the sessions are left to whoever closes all of them."""
        while self._peers:
            self._peers.popitem()[1].stop()


class _Peer:
    """One other node, as its newest lease describes it."""

    def __init__(self, owner: Peers, hop: Peer) -> None:
        runtime = owner.runtime
        self._owner = owner
        self._hop = self._dialled = hop
        self._epoch = hop.epoch
        self._waiting: list[tuple[int, Ready]] = []
        self._wanted_at = runtime.clock.monotonic()
        self._said = ""
        self.link = Link(self, clock=runtime.clock, backoff=backoff(owner.runtime.limits))
        self._task = runtime.tasks.spawn(self.link.run(), name=f"link to {hop.node_id}", critical=True)

    def ready(self, hop: Peer) -> Mux | None:
        session = self.link.session
        if session is None or hop.epoch != self._epoch or not session.can_open:
            return None
        self._wanted_at = self._owner.runtime.clock.monotonic()
        return session

    def ask(self, hop: Peer, ready: Ready) -> None:
        if session := self.ready(hop):
            ready(session)
            return
        self._wanted_at = self._owner.runtime.clock.monotonic()
        if hop.epoch < self._epoch:
            ready(STALE)
        elif len(self._waiting) >= WAITERS:
            ready(Problem(503, "busy", f"{WAITERS} streams wait for node {hop.node_id}"))
        elif self._retarget(hop) or self.link.nudge():
            self._waiting.append((hop.epoch, ready))
        else:
            ready(_unreachable(hop.node_id, self.link.down))

    def unused(self) -> bool:
        session = self.link.session
        idle = session is None or not session.active
        return idle and not self._waiting and self._owner.runtime.clock.monotonic() - self._wanted_at > KEPT_WARM

    def stop(self) -> None:
        self._task.cancel()
        self._tell_waiting(lambda _: _unreachable(self._hop.node_id, self.link.down))

    def _retarget(self, hop: Peer) -> bool:
        """True when the node has restarted or moved: what is up then belongs to the process before."""
        if hop.epoch == self._epoch and hop.address == self._hop.address:
            return False
        self._hop, self._epoch = hop, hop.epoch
        if self.link.session is not None:
            self.link.session.close(GoAwayCode.NORMAL, "the node has restarted")
        self.link.redial()
        return True

    # -- what the link asks and tells ------------------------------------------------------------------------------

    async def connect(self, over: Callable[[Ended], None]) -> Mux:
        """Dial the node, and check that it is the one that was meant."""
        hop = self._dialled = self._hop
        connection, accepted = await dial(self._owner.runtime.engine, await self._whom(hop))
        if accepted.node != hop.node_id or accepted.epoch < self._epoch:
            connection.abort()
            raise DialFailed(
                "upgrade", f"meant epoch {self._epoch}, reached node {accepted.node} at epoch {accepted.epoch}"
            )
        self._epoch = accepted.epoch
        return self._start(connection, over)

    async def _whom(self, hop: Peer) -> Dial:
        mine, me = self._owner.credentials, self._owner.runtime.me
        try:
            address = Address.parse(hop.address)
            token = await self._owner.runtime.threads.run(mine.token)
        except ValueError:
            raise DialFailed("connect", f"the node's record has the address {hop.address!r}") from None
        except DomainError as error:
            raise DialFailed("connect", f"our own token: {error.message}") from error
        return Dial(
            host=address.host,
            port=address.port,
            context=mine.context(),
            request=UpgradeRequest(RELAY, hop.address, token.reveal(), me.node_id, me.epoch),
            verify=_is_node(hop.node_id),
            timeouts=dial_timeouts(self._owner.runtime.limits),
        )

    def _start(self, connection: Connection, over: Callable[[Ended], None]) -> Mux:
        runtime = self._owner.runtime

        def closed(_: Mux, reason: str, code: int | None) -> None:
            runtime.metrics.ended("peer", close_reason(code))
            over(Ended(reason, code))

        session = Mux(
            runtime.engine,
            connection,
            client=True,
            on_stream=lambda channel, _: channel.refuse(FOREIGN),
            on_closed=closed,
            on_drain=lambda _: over(Ended("it drains", GoAwayCode.NORMAL)),
            limits=session_limits(runtime.limits),
        )
        session.start()
        return session

    def link_up(self, session: Mux) -> None:
        self._say("up", logging.INFO, "node %s: session up at epoch %d", self._hop.node_id, self._epoch)
        self._tell_waiting(lambda epoch: session if epoch == self._epoch else STALE)

    def link_down(self, why: Down, pause: float) -> None:  # noqa: ARG002 - the other owners log it
        if isinstance(why, DialFailed):
            self._say(str(why), logging.WARNING, "node %s cannot be reached: %s", self._hop.node_id, why)
        else:
            self._say("ended", logging.INFO, "node %s: session ended: %s", self._hop.node_id, why)
        if isinstance(why, DialFailed) and self._hop == self._dialled:
            self._tell_waiting(lambda _: _unreachable(self._hop.node_id, why))
        elif self._waiting:
            self.link.redial()

    def _tell_waiting(self, answer: Callable[[int], Mux | Problem]) -> None:
        waiting, self._waiting = self._waiting, []
        for epoch, ready in waiting:
            ready(answer(epoch))
        self._owner.runtime.engine.settle()

    def _say(self, state: str, level: int, text: str, *args: object) -> None:
        """One line for each change."""
        if state != self._said:
            self._said = state
            log.log(level, text, *args)


def _is_node(node_id: str) -> Callable[[bytes], None]:
    def verify(certificate: bytes) -> None:
        found = tls.node_id_of(certificate)
        if found != node_id:
            raise PeerMismatch(f"the certificate is for node {found!r}, meant {node_id!r}")

    return verify


def _unreachable(node_id: str, why: Down | None) -> Problem:
    return Problem(502, "peer_unreachable", f"node {node_id}: {why or 'not dialled'}")
