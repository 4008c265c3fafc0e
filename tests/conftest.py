"""What every test shares: the event loop that the product would choose."""

import asyncio
import os
from collections.abc import Callable, Mapping

import pytest

try:
    import uvloop
except ImportError:
    uvloop = None


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """uvloop where it is installed, as the daemons do; TUNNELMESH_LOOP=asyncio runs the same tests without it."""
    if uvloop is None or os.environ.get("TUNNELMESH_LOOP") == "asyncio":
        return {"asyncio": asyncio.new_event_loop}
    return {"uvloop": uvloop.new_event_loop}
