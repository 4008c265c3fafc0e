"""What a node counts. Gauges are read from their owner at every scrape, so that none can drift or go negative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
CODES: Final = (
    "opened", "busy", "no_agent", "agent_unavailable", "peer_unreachable", "forbidden", "unreachable", "timeout",
    "reset",
)  # fmt: skip
"""How a user's connection begins. Codes come from other machines; what is not listed counts as `other`."""


class Metrics:
    """The metrics of one node; several may live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        connections = self._counter("entry_connections", "Users' connections, by how they began.", "code")
        self._connections = {code: connections.labels(code) for code in (*CODES, "other")}
        self._admissions = self._counter("admissions", "Requests for a session, by door and verdict.", "door", "code")
        self._ended = self._counter("sessions_ended", "Sessions that ended, by kind and reason.", "kind", "reason")

    def connection(self, code: str) -> None:
        """A user's connection was opened or refused."""
        self._connections.get(code, self._connections["other"]).inc()

    def admission(self, door: str, code: str) -> None:
        """A request for a session was judged; `code` is one of our own."""
        self._admissions.labels(door, code).inc()

    def ended(self, kind: str, reason: str) -> None:
        """A session ended; `reason` is what `close_reason` makes of its GOAWAY code."""
        self._ended.labels(kind, reason).inc()

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A gauge `tunnelmesh_<name>` whose value is `read()` at every scrape."""
        Gauge(f"tunnelmesh_{name}", text, registry=self._registry).set_function(read)

    def render(self) -> bytes:
        """All of them in the text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"tunnelmesh_{name}", text, labels, registry=self._registry)
