"""`manage.py run_agent`: an agent beside private services. Needs no database and no settings of a node."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from relay import process
from relay.agent import Agent
from tunnelmesh.common import logging
from tunnelmesh.common.errors import DomainError, ExitCode
from tunnelmesh.conf.options import add_agent_options, agent_config
from tunnelmesh.conf.schema import AgentConfig


class Command(BaseCommand):
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.description = _(
            "Run an agent: it dials its servers and reaches what its allow list names. SIGTERM ends it in good order."
        )
        add_agent_options(parser)

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            config = agent_config(options).value
            logging.configure(config.logging.level, config.logging.format)
            code = process.run(_serve(config))
        except DomainError as error:
            raise CommandError(str(error), returncode=process.exit_code(error)) from None
        sys.exit(code)


def _serve(config: AgentConfig) -> process.Main:
    async def main(stop: asyncio.Event) -> ExitCode:
        return await Agent(config).run(stop)

    return main
