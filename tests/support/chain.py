"""A user's socket and a service's, joined through one session or through two with a node in the middle."""

import asyncio
import socket
from dataclasses import dataclass, field

from relay.net.channel import Channel
from relay.net.engine import Engine
from relay.net.pump import Pump, prepare
from relay.protocol.errors import GoAwayCode
from tests.support.loopback import TARGET, Contexts, End, joined, tcp_pair, tls_pair

Sockets = tuple[socket.socket, socket.socket]


@dataclass
class Chain:
    """`entry` opens streams, `agent` serves them; `node` holds the two sessions in the middle, if there are two."""

    engine: Engine
    entry: End
    agent: End
    node: tuple[End, ...] = ()
    closed: list[str] = field(default_factory=list)
    """The ends of the pumps, by side."""
    buffer: int | None = None
    """What the kernel may hold of each plain socket."""

    @classmethod
    async def new(cls, engine: Engine, contexts: Contexts, hops: int = 1, *wires: Sockets) -> "Chain":
        """`wires` are what the sessions run over, from the entry on; by default a loopback connection each."""
        wire = iter(wires)
        if hops == 1:
            return cls(engine, *await joined(engine, contexts, next(wire, None)))
        entry, door = await tls_pair(engine, contexts, next(wire, None))
        agent, outward = await tls_pair(engine, contexts, next(wire, None))
        to_agent = End(engine, outward, client=False)
        relay = End(engine, door, client=False, on_stream=to_agent.mux.relay)
        ends = End(engine, entry, client=True), End(engine, agent, client=True)
        return cls(engine, *ends, node=(relay, to_agent))

    @property
    def ends(self) -> list[End]:
        return [self.entry, *self.node, self.agent]

    async def connect(self) -> Sockets:
        """A user's connection and the service's side of it."""
        user, near = tcp_pair(buffer=self.buffer)
        service, far = tcp_pair(buffer=self.buffer)
        for sock in (near, far):
            prepare(sock)

        async def serve() -> None:
            channel = await self.agent.accepted()
            Pump(self.engine, far, channel, lambda: self.closed.append("far")).start()

        opened, _ = await asyncio.gather(self.entry.open(TARGET), serve())
        assert isinstance(opened, Channel)
        Pump(self.engine, near, opened, lambda: self.closed.append("near")).start()
        self.engine.settle()
        return user, service

    def close(self) -> None:
        for end in self.ends:
            end.mux.close(GoAwayCode.NORMAL, "the test is over")


async def send(sock: socket.socket, data: bytes, *, finish: bool = True) -> None:
    """Send all, and then the end."""
    await asyncio.get_running_loop().sock_sendall(sock, data)
    if finish:
        sock.shutdown(socket.SHUT_WR)
