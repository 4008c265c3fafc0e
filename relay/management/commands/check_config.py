"""`manage.py check_config`: every check of a configuration that needs no network; exit code 0 or 3."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.translation import gettext as _

from nodes.identity import Origin, find_identity
from relay.checkup.agent import check_agent
from relay.checkup.finding import Finding, Outcome, failed
from relay.checkup.node import check_node
from tunnelmesh.common.clock import SystemClock
from tunnelmesh.common.errors import DomainError, ExitCode
from tunnelmesh.conf.load import BadConfiguration, Loaded
from tunnelmesh.conf.options import add_server_options, agent_config, server_config
from tunnelmesh.conf.schema import ServerConfig


class Command(BaseCommand):
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.description = _("Check a node's or an agent's configuration without the network. Changes nothing.")
        add_server_options(parser)
        parser.add_argument("--agent", action="store_true", help=_("check an agent's configuration, agent.yaml"))
        parser.add_argument("--json", action="store_true", help=_("print one JSON object, with each value's source"))

    def handle(self, *_args: object, **options: Any) -> None:
        values, findings = _examine(options)
        outcomes = Counter(finding.outcome for finding in findings)
        if options["json"]:
            self.stdout.write(_as_json(values, findings))
        else:
            for finding in findings:
                self.stdout.write(_as_text(finding))
            self.stdout.write(", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome))
        if outcomes[Outcome.FAIL]:
            raise SystemExit(ExitCode.REFUSED_CONFIG)


def _examine(options: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    now = SystemClock().now()
    try:
        if options["agent"]:
            agent = agent_config(options)
            return agent.shown(), list(check_agent(agent, now=now, environ=os.environ))
        node = server_config(options)
        findings = list(check_node(node, now=now, environ=os.environ))
        return node.shown() | _kept_identity(node), findings
    except BadConfiguration as error:
        return {}, [failed("configuration", problem, error.hint) for problem in error.problems]
    except DomainError as error:
        return {}, [failed("configuration", error.message, error.hint)]


def _kept_identity(node: Loaded[ServerConfig]) -> dict[str, Any]:
    """The id of the state file, which no loaded value shows; the checks say what is wrong with one that is refused."""
    with suppress(DomainError):
        identity = find_identity(node)
        if identity and identity.origin is Origin.STATE_FILE:
            return {"node.id": {"value": identity.node_id, "source": identity.source}}
    return {}


def _as_text(finding: Finding) -> str:
    line = f"{finding.outcome}  {finding.check}: {finding.text}"
    return f"{line}\n      {finding.hint}" if finding.hint else line


def _as_json(values: dict[str, Any], findings: list[Finding]) -> str:
    failures = any(finding.outcome is Outcome.FAIL for finding in findings)
    checks = [finding.as_json() for finding in findings]
    return json.dumps({"ok": not failures, "values": values, "checks": checks}, indent=2, ensure_ascii=False)
