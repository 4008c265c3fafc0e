"""`manage.py run_relay`: this Server node, without the console (requirements F12-F14, F20)."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from nodes.identity import ensure_identity
from relay import process
from relay.daemon import Daemon
from relay.registry import Registry
from tunnelmesh.common.errors import DomainError, ExitCode
from tunnelmesh.common.logging import configure as configure_logging
from tunnelmesh.conf.options import add_server_options, server_config
from tunnelmesh.conf.schema import ServerConfig
from tunnelmesh.db.schema import require_schema

log = logging.getLogger(__name__)


class Command(BaseCommand):
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.description = _(
            "Run this Server node: its relay, its agents' listener and its entries. SIGTERM ends it in good order."
        )
        add_server_options(parser)

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            loaded = server_config(options)
            configure_logging(loaded.value.logging.level, loaded.value.logging.format)
            require_schema()
            identity = ensure_identity(loaded)
            if identity.unwritten:
                self.stderr.write(str(identity.unwritten))
            if identity.written:
                log.info("the node id %s now stands in %s", identity.node_id, identity.written)
            code = process.run(_serve(loaded.value, identity.node_id))
        except DomainError as error:
            raise CommandError(str(error), returncode=process.exit_code(error)) from None
        sys.exit(code)


def _serve(config: ServerConfig, node_id: str) -> process.Main:
    async def main(stop: asyncio.Event) -> ExitCode:
        return await Daemon(config, node_id=node_id, registry=Registry()).run(stop)

    return main
