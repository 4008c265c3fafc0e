"""Someone at a node's TLS door who says what a test wants said, beside the node in one loop."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from relay.demo.ports import LOOPBACK

SECONDS = 10.0


def client_context(folder: Path | None = None, name: str = "") -> ssl.SSLContext:
    """Accepts whatever answers; shows the certificate `name` of `folder` if one is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if folder is not None:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


@asynccontextmanager
async def at_door(
    port: int, context: ssl.SSLContext
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TLS connection that has said nothing yet."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def head(path: str, **fields: str) -> bytes:
    """An upgrade request; `token` becomes the Authorization, `node`, `agent` and `epoch` our own fields."""
    names = {"node": "TunnelMesh-Node", "agent": "TunnelMesh-Agent", "epoch": "TunnelMesh-Epoch"}
    lines = [f"GET {path} HTTP/1.1", "Host: node", "Connection: Upgrade", "Upgrade: yamux"]
    for name, value in fields.items():
        lines.append(f"Authorization: Bearer {value}" if name == "token" else f"{names[name]}: {value}")
    return "\r\n".join([*lines, "", ""]).encode()


async def say(port: int, request: bytes, context: ssl.SSLContext) -> tuple[int, dict[str, str]]:
    """The status of the answer and its problem, empty for a 101."""
    async with asyncio.timeout(SECONDS), at_door(port, context) as (reader, writer):
        writer.write(request)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = int(answer.split()[1])
        return status, {} if status == 101 else json.loads(await reader.read())
