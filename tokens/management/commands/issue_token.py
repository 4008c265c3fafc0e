"""`manage.py issue_token`: a new service token; the secret alone on standard output, once."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from tokens.models import ServiceToken
from tokens.principal import TokenType
from tokens.scope import AgentScope, Allowlist, Fleet, Scope
from tokens.services.service_tokens import token_issue
from tunnelmesh.common.deadline import parse_deadline
from tunnelmesh.common.errors import DomainError, ExitCode, Invalid
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.options import SERVER_FILE, add_config_option
from tunnelmesh.db.clock import database_now
from tunnelmesh.db.schema import require_schema
from tunnelmesh.db.unit import writes

TYPES = (TokenType.SERVER_NODE, TokenType.AGENT)


class Command(BaseCommand):
    def add_arguments(self, parser: CommandParser) -> None:
        parser.description = _(
            "Issue a token. Its secret is the only thing on standard output, and is shown this once."
        )
        add_config_option(parser, SERVER_FILE)
        parser.add_argument("--type", required=True, choices=[kind.value for kind in TYPES])
        parser.add_argument("--name", required=True, help=_("what people will know it by"))
        parser.add_argument("--expires", metavar="WHEN", help=_("90d, 12h, 2027-01-31; without it, never"))
        scope = parser.add_mutually_exclusive_group(required=True)
        scope.add_argument("--fleet", action="store_true", help=_("server_node: any node of the fleet"))
        scope.add_argument(
            "--node", action="append", metavar="ID", help=_("server_node: this node alone; give it again for more")
        )
        scope.add_argument("--agent", metavar="ID", help=_("agent: the one agent that it is for"))

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            require_schema()
            token, secret = _issue(options)
        except DomainError as error:
            code = ExitCode.USAGE if isinstance(error, Invalid) else ExitCode.FAILED
            raise CommandError(str(error), returncode=code) from None
        self.stderr.write(_summary(token), str)
        self.stdout.write(secret.reveal())


@writes
def _issue(options: dict[str, Any]) -> tuple[ServiceToken, Secret]:
    expires = options["expires"]
    return token_issue(
        TokenType(options["type"]),
        name=options["name"],
        scope=_scope(options),
        expires_at=parse_deadline(expires, now=database_now()) if expires else None,
        actor=f"command:issue_token uid:{os.getuid()}",
    )


def _scope(options: dict[str, Any]) -> Scope:
    if options["agent"] is not None:
        return AgentScope(options["agent"])
    return Allowlist(frozenset(options["node"])) if options["node"] else Fleet()


def _summary(token: ServiceToken) -> str:
    expires = token.expires_at.isoformat(timespec="seconds") if token.expires_at else _("never")
    place = {
        TokenType.SERVER_NODE.value: _("server.relay.node_token of each Server's YAML, as file:/PATH or env:NAME"),
        TokenType.AGENT.value: _("token of the agent's YAML, as file:/PATH or env:NAME"),
    }[token.type]
    return _(
        "Token %(id)s %(name)s (%(hint)s...), %(type)s, scope %(scope)s, expires: %(expires)s.\n"
        "Only its digest is stored: keep the secret below in a file of mode 0600. It belongs in %(place)s."
    ) % {
        "id": token.id,
        "name": token.name,
        "hint": token.prefix,
        "type": token.type,
        "scope": token.scope,
        "expires": expires,
        "place": place,
    }
