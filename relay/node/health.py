"""The local admin endpoint of a node: /health/live, /health/ready, /metrics; plain HTTP for the host's own monitoring.

Ready means that users are served: registered, beating, every door and every entry open (lessons: a health check that
answers 200 while nothing works is worse than none).
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from relay.metrics import CONTENT_TYPE, Metrics
from relay.net.tasks import Tasks
from relay.protocol.errors import BadHead
from relay.protocol.heads import END, MAX_HEAD, build, parse_request

log = logging.getLogger(__name__)

DEADLINE: Final = 5.0
"""Seconds for one request, from accept to the end of the answer."""
CONNECTIONS: Final = 32
STATUS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Answer = tuple[int, str, bytes]


class HealthEndpoint:
    """`readiness()` gives what each part says of itself: None for well, else why not; `facts()` is shown beside."""

    def __init__(
        self,
        *,
        readiness: Callable[[], Mapping[str, str | None]],
        facts: Callable[[], Mapping[str, Any]],
        metrics: Metrics,
    ) -> None:
        self._readiness = readiness
        self._facts = facts
        self._metrics = metrics
        self._servers: list[asyncio.Server] = []
        self._tasks = Tasks()

    async def start(self, sockets: list[socket.socket]) -> None:
        """Begin to serve; the sockets are listening already."""
        for sock in sockets:
            self._servers.append(await asyncio.start_server(self._on_connection, sock=sock, limit=MAX_HEAD))

    async def close(self) -> None:
        """Stop serving, and cut who is being served."""
        for server in self._servers:
            server.close()
        await self._tasks.cancel()

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS:
            writer.transport.abort()
        else:
            self._tasks.spawn(self._serve(reader, writer), name="health request")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(DEADLINE):
                writer.write(_response(*self._answer(await reader.readuntil(END))))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            log.debug("a health request failed: %r", error)
        finally:
            writer.transport.abort()

    def _answer(self, head: bytes) -> Answer:
        try:
            request = parse_request(head)
        except BadHead as error:
            return _json(400, {"error": str(error)})
        if request.method != "GET":
            return _json(405, {"error": "only GET is answered here"})
        path = request.target.partition("?")[0]
        if path == "/health/live":
            return _json(200, {"live": True})
        if path == "/health/ready":
            checks = self._readiness()
            ready = not any(checks.values())
            shown = {name: why or "ok" for name, why in checks.items()}
            return _json(200 if ready else 503, {"ready": ready, **self._facts(), "checks": shown})
        if path == "/metrics":
            return 200, CONTENT_TYPE, self._metrics.render()
        return _json(404, {"error": "here are /health/live, /health/ready and /metrics"})


def _json(status: int, document: Mapping[str, Any]) -> Answer:
    return status, "application/json", json.dumps(document).encode() + b"\n"


def _response(status: int, content_type: str, body: bytes) -> bytes:
    fields = [("Content-Type", content_type), ("Content-Length", str(len(body))), ("Connection", "close")]
    return build(f"HTTP/1.1 {status} {STATUS[status]}", fields) + body
