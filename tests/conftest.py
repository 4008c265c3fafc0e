"""What every test shares: the event loop that the product would choose, and no silent skips in the build."""

import asyncio
import os
from collections.abc import Callable, Generator, Mapping

import pytest
from django.utils import translation

try:
    import uvloop
except ImportError:
    uvloop = None

NOTHING_MAY_SKIP = os.environ.get("CI") == "true"
os.environ["LC_ALL"] = "C.UTF-8"  # what commands say is compared in English, whoever runs the tests


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """uvloop where it is installed, as the daemons do; TUNNELMESH_LOOP=asyncio runs the same tests without it."""
    if uvloop is None or os.environ.get("TUNNELMESH_LOOP") == "asyncio":
        return {"asyncio": asyncio.new_event_loop}
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _english() -> None:
    """A request leaves its language to its thread, and so to the next test."""
    translation.deactivate()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that lacks something of the machine skips on a laptop and fails in the build, which has to bring it."""
    report = yield
    if NOTHING_MAY_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"with CI=true nothing may be skipped; this was: {report.longrepr}"
    return report
