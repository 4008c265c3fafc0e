"""The work of `manage.py demo`: bring a mesh up, tell about it, hold or check it, and leave nothing behind."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from django.utils.translation import gettext as _

from relay.demo.check import checks
from relay.demo.description import describe
from relay.demo.report import report
from relay.demo.shape import two_nodes
from relay.demo.signals import Signals, Stopped
from relay.demo.topology import Topology
from tunnelmesh.common.clock import SystemClock
from tunnelmesh.common.errors import DomainError, ExitCode

Say = Callable[[str], None]


def run(state: Path, *, once: bool, say: Say, complain: Say) -> ExitCode:
    """Run the demo in ``state`` until it is told to stop, or ``once`` through its check.

    Returns 0 after a clean stop or a passed check, 1 after a failure (told through ``complain``), 130 when it was
    interrupted before it was ready or checked.
    """
    signals = Signals()
    try:
        with closing(Topology(state, two_nodes(console=True), watch=signals.check)) as mesh:
            try:
                _bring_up(mesh, say)
                (_check if once else _hold)(mesh, signals, say)
            finally:
                _end(mesh, say)
    except Stopped:
        return ExitCode.INTERRUPTED
    except (DomainError, OSError) as error:
        complain(str(error))
        return ExitCode.FAILED
    return ExitCode.OK


def _bring_up(mesh: Topology, say: Say) -> None:
    steps = {
        "certificates": _("certificates: an authority of its own, a pair per node"),
        "configuration": _("configuration: a file per node and agent"),
        "database": _("database: schema, administrator, tokens, the route"),
        "processes": _("processes: the nodes serve, the agent is started"),
        "ready": _("ready: the agent is connected"),
    }
    clock = SystemClock()
    start = clock.monotonic()
    say(_("demo in %(state)s") % {"state": mesh.folder.path})
    mesh.bring_up(lambda step: say(f"{clock.monotonic() - start:5.1f} s  {steps[step]}"))
    mesh.folder.describe(describe(mesh))


def _check(mesh: Topology, signals: Signals, say: Say) -> None:
    names = {
        "greeting": _("a greeting"),
        "download": _("download"),
        "upload": _("upload"),
        "exchange": _("both ways at once"),
        "half-close": _("an answer after half-close"),
    }
    entry = next(iter(mesh.entries.values()))
    for check in checks():
        signals.check()
        check.run(entry)
        say(
            _("passed: %(name)s (%(up)d bytes up, %(down)d down)")
            % {"name": names[check.name], "up": check.bytes_up, "down": check.bytes_down}
        )


def _hold(mesh: Topology, signals: Signals, say: Say) -> None:
    """Tell what there is, then report each process that ends, until a stop is asked for."""
    for line in report(describe(mesh)):
        say(line)
    ended: set[str] = set()
    while not signals.stopping:
        for process in mesh.processes.values():
            if not process.running and process.name not in ended:
                ended.add(process.name)
                mesh.folder.describe(describe(mesh))
                say(str(process.died()))
                say(_("To start it again: %(command)s") % {"command": shlex.join(process.command)})
        signals.wait()


def _end(mesh: Topology, say: Say) -> None:
    say(_("stopping"))
    for name in mesh.stop():
        say(_("%(name)s did not end in time and was killed") % {"name": name})
    mesh.folder.describe(describe(mesh))
    say(_("stopped; nothing of it is running"))
