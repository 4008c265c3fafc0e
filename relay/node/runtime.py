"""What every part of a node's daemon works with."""

from __future__ import annotations

from dataclasses import dataclass

from relay.metrics import Metrics
from relay.net.engine import Engine
from relay.net.tasks import Tasks
from relay.node.threads import Threads
from relay.registry import Registry
from tunnelmesh.common.clock import Clock
from tunnelmesh.conf.schema import ServerLimits


@dataclass(frozen=True, slots=True)
class Me:
    """This node, as the running process: its id and the epoch that it registered with (F20)."""

    node_id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One per process of a node. `registry` is called through `threads` only."""

    me: Me
    engine: Engine
    tasks: Tasks
    threads: Threads
    registry: Registry
    clock: Clock
    limits: ServerLimits
    metrics: Metrics
