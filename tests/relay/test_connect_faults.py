"""Each step on the way to a session is made to raise and to hang, again and again, then works (faults.md, R6).

The steps of both sides: token, name, TCP, TLS, request, judgement, lease, answer. The agent must end up connected,
with one session, one lease and no other socket.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from nodes.facts import Lease
from nodes.models import AgentConnection
from relay.gate import Refusal
from relay.net import dialer
from relay.net.opening import Opening
from relay.registry import Registry
from tests.support.cluster import Cluster, eventually
from tokens.principal import AgentPrincipal
from tunnelmesh.common.errors import DomainError
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.secretref import SecretRef

ROUNDS = 5
SECONDS = 0.2
"""Of every step that dials; what hangs does so for longer."""
AWAY = DomainError("database_unavailable", "planted")


class Fault:
    """Lets a call fail `ROUNDS` times, by raising `error` or, without one, by hanging: a thread until its caller has
    given up, a task for ever."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.left = ROUNDS
        self.over = threading.Event()

    def _due(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def here(self) -> None:
        """In a thread."""
        if self._due():
            if self.error is None:
                self.over.wait(2 * SECONDS)
                return
            raise self.error

    def wrap(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """In the loop."""

        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            if self._due():
                if self.error is None:
                    await asyncio.Event().wait()
                else:
                    raise self.error
            return await call(*args, **kwargs)

        return wrapped


class Faulty(Registry):
    """A registry with a fault at the judgement or at the lease."""

    def __init__(self, at: str, fault: Fault) -> None:
        self._at, self._fault = at, fault

    def authenticate_agent(
        self, token: Secret | None, *, agent_id: str, source: str, has_capacity: bool = True
    ) -> AgentPrincipal | Refusal:
        if self._at == "judgement":
            self._fault.here()
        return super().authenticate_agent(token, agent_id=agent_id, source=source, has_capacity=has_capacity)

    def open_lease(self, node_id: str, *, epoch: int, agent_id: str, connection_id: str) -> Lease:
        if self._at == "lease":
            self._fault.here()
        return super().open_lease(node_id, epoch=epoch, agent_id=agent_id, connection_id=connection_id)


def plant(at: str, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the fault into the code of the step."""
    if at in ("name", "TCP"):
        method = "getaddrinfo" if at == "name" else "sock_connect"
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, method, fault.wrap(getattr(loop, method)))
    elif at in ("handshake", "request"):
        method = "handshake" if at == "handshake" else "send"
        monkeypatch.setattr(Opening, method, fault.wrap(getattr(Opening, method)))
    elif at == "answer":
        monkeypatch.setattr(dialer, "_upgrade", fault.wrap(dialer._upgrade))


STEPS = [
    ("name", OSError(11, "planted")),
    ("TCP", OSError(113, "planted")),
    ("handshake", OSError(104, "planted")),
    ("answer", dialer.DialFailed("upgrade", "planted")),
    ("request", OSError(104, "planted")),
    ("judgement", AWAY),
    ("lease", AWAY),
]


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    made = Fault(request.param)
    yield made
    made.over.set()


CASES = [*STEPS, *((step, None) for step, _ in STEPS if step != "answer")]


@pytest.mark.parametrize(
    ("step", "fault"),
    CASES,
    indirect=["fault"],
    ids=[f"{step} {'raises' if error else 'hangs'}" for step, error in CASES],
)
async def test_connected_after_all(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: str, fault: Fault) -> None:
    node = await cluster.start_node("node-a", registry=Faulty(step, fault))
    cluster.agent_limits |= {"connect": SECONDS, "handshake": SECONDS, "upgrade": SECONDS, "reconnect_longest": 0.1}
    config = await cluster.agent_config("agent-1", [node.agents_port])
    plant(step, fault, monkeypatch)
    running = await cluster.run_agent(config)
    await eventually(lambda: fault.left < 0)
    fault.over.set()
    await running.connected()
    await eventually(lambda: len(node.node.agents) == 1)
    await cluster.eventually(lambda: AgentConnection.objects.filter(closed_at=None).count() == 1)
    assert len(node.engine.muxes) == 1


async def test_token_file_that_comes_and_goes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(DomainError("no_secret", "planted"))
    node = await cluster.start_node("node-a")
    cluster.agent_limits |= {"reconnect_longest": 0.1}
    config = await cluster.agent_config("agent-1", [node.agents_port])
    resolve = SecretRef.resolve

    def faulty(self: SecretRef, *args: Any) -> Secret:
        if threading.current_thread() is not threading.main_thread():
            fault.here()
        return resolve(self, *args)

    monkeypatch.setattr(SecretRef, "resolve", faulty)
    running = await cluster.run_agent(config)
    await running.connected()
    assert fault.left < 0
