"""When a mesh is ready: what each of its processes must show, asked from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from relay.demo.layout import Layout
from relay.demo.shape import Shape
from relay.demo.wait import gauge, http_status, is_listening

AGENT_SESSIONS = "tunnelmesh_agent_sessions"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that must hold; its ``process`` is the one whose log tells why it does not."""

    process: str
    what: str
    holds: Callable[[], bool]


def serving(shape: Shape, layout: Layout) -> Iterator[Condition]:
    """Everybody who listens does."""
    if shape.has_service:
        yield Condition("service", "the service listens", partial(is_listening, layout.service))
    for node, ports in layout.nodes.items():
        yield Condition(node, f"{node} is ready", partial(_is_ready, ports.admin))
    if shape.console:
        yield Condition("console", "the console listens", partial(is_listening, layout.console))


def connected(shape: Shape, layout: Layout) -> Iterator[Condition]:
    """Every agent is connected to all its nodes."""
    for node, ports in layout.nodes.items():
        agents = [agent.id for agent in shape.agents if node in agent.nodes]
        if agents:
            what = f"{node} has its agents ({', '.join(agents)})"
            yield Condition(agents[0], what, partial(_has_agents, ports.admin, len(agents)))


def _is_ready(admin: int) -> bool:
    return http_status(admin, "/health/ready") == HTTPStatus.OK


def _has_agents(admin: int, count: int) -> bool:
    return gauge(admin, AGENT_SESSIONS) == count
