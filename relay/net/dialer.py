"""Dialling a Server node: TCP, TLS, the check of the peer's certificate, the upgrade. Every step has its deadline.

Under TLS 1.3 only the 101 means "connected": a server that rejects our certificate is first seen as an end of stream.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from relay.net.connection import Connection
from relay.net.engine import Engine
from relay.protocol import problem, upgrade
from relay.protocol.errors import BadHead
from relay.protocol.problem import Problem
from relay.protocol.upgrade import Accepted, UpgradeRequest

PERMANENT: Final = frozenset({400, 401, 403, 404})
"""Refusals that the same request will meet again; 412 and 5xx may pass by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialTimeouts:
    """Seconds for each step (faults.md, section 4)."""

    connect: float = 5.0
    tls: float = 10.0
    upgrade: float = 10.0


class PeerMismatch(Exception):
    """The peer's certificate is a good one, but not that of the peer we meant."""


@dataclass(eq=False)
class DialFailed(Exception):
    """Why there is no session. `stage` is connect, tls, verify or upgrade."""

    stage: str
    reason: str
    problem: Problem | None = None
    permanent: bool = False
    """True when trying again soon cannot help."""

    def __str__(self) -> str:
        return f"{self.stage}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """Whom to dial and what must hold. `verify` gets the peer's certificate (DER) before the first byte is sent, and
    raises PeerMismatch."""

    host: str
    port: int
    context: ssl.SSLContext
    request: UpgradeRequest
    verify: Callable[[bytes], None]
    server_name: str | None = None
    timeouts: DialTimeouts = DialTimeouts()


async def dial(engine: Engine, to: Dial) -> tuple[Connection, Accepted]:
    """A connection on which the 101 has been read. Raises DialFailed; then nothing is left open."""
    sock = await _connect(engine.loop, to)
    try:
        connection = Connection(
            engine, sock, to.context, server=False, server_name=to.server_name or to.host, source=to.host
        )
    except (OSError, ValueError) as error:
        sock.close()
        raise DialFailed("tls", str(error)) from error
    try:
        await _handshake(connection, to)
        accepted = await _upgrade(connection, to)
    except BaseException:
        connection.abort()
        raise
    return connection, accepted


async def _connect(loop: asyncio.AbstractEventLoop, to: Dial) -> socket.socket:
    """A connection to the first address that answers; each gets an equal share of the time that is left."""
    seconds = to.timeouts.connect
    ends = loop.time() + seconds
    try:
        async with asyncio.timeout_at(ends):
            places = await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DialFailed("connect", f"{to.host}: {error or f'not resolved within {seconds:g} s'}") from error
    reasons: list[str] = []
    for left, (family, _, _, _, address) in zip(range(len(places), 0, -1), places, strict=True):
        now = loop.time()
        try:
            async with asyncio.timeout_at(now + (ends - now) / left):
                return await _connect_to(loop, family, address)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else f"no answer within {seconds / len(places):g} s"
            reasons.append(f"{address[0]}: {why}")
    raise DialFailed("connect", "; ".join(reasons))


async def _connect_to(loop: asyncio.AbstractEventLoop, family: int, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


async def _handshake(connection: Connection, to: Dial) -> None:
    try:
        async with asyncio.timeout(to.timeouts.tls):
            await connection.handshake()
    except TimeoutError as error:
        raise DialFailed("tls", f"no handshake within {to.timeouts.tls:g} s") from error
    except ssl.SSLCertVerificationError as error:
        raise DialFailed("verify", f"the server's certificate: {error.verify_message}", permanent=True) from error
    except OSError as error:
        raise DialFailed("tls", str(error)) from error
    try:
        to.verify(connection.peer_certificate() or b"")
    except PeerMismatch as error:
        raise DialFailed("verify", str(error), permanent=True) from error
    except Exception as error:
        # Without a CA (a pin alone) the certificate is whatever a stranger has made up.
        raise DialFailed("verify", f"the server's certificate cannot be read: {error}", permanent=True) from error


async def _upgrade(connection: Connection, to: Dial) -> Accepted:
    try:
        async with asyncio.timeout(to.timeouts.upgrade):
            await connection.send(to.request.encode())
            head = await connection.read_head()
            accepted = upgrade.decode_answer(head)
            if accepted is not None:
                return accepted
            refusal = problem.decode(head, await connection.read_body(problem.body_length(head)))
    except TimeoutError as error:
        raise DialFailed("upgrade", f"no answer within {to.timeouts.upgrade:g} s") from error
    except BadHead as error:
        raise DialFailed("upgrade", f"not a TunnelMesh server: {error}", permanent=True) from error
    except (EOFError, OSError) as error:
        raise DialFailed(
            "upgrade", f"the server closed the connection ({error}): it rejects our certificate, or is shutting down"
        ) from error
    raise DialFailed(
        "upgrade",
        f"refused with {refusal.status} {refusal.code}: {refusal.detail}",
        refusal,
        refusal.status in PERMANENT,
    )
