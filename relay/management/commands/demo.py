"""`manage.py demo`: two nodes, an agent, a service and a tunnel through them, on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.utils.translation import gettext as _

from relay.demo.run import run


class Command(BaseCommand):
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.description = _(
            "Run a whole mesh on 127.0.0.1: two nodes, an agent, a service, an entry, a console. Ctrl-C ends it."
        )
        default = Path(settings.BASE_DIR) / ".demo"
        parser.add_argument(
            "--state", type=Path, default=default, help=_("folder for everything it makes (default: %(default)s)")
        )
        parser.add_argument("--once", action="store_true", help=_("check the tunnel byte for byte, stop, exit 0 or 1"))

    def handle(self, *_args: object, state: Path, once: bool, **_options: object) -> None:
        def say(line: str) -> None:
            self.stdout.write(line)
            self.stdout.flush()

        sys.exit(run(state, once=once, say=say, complain=self.stderr.write))
