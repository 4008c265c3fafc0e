"""`manage.py init_node_id`: find or create this node's identity; say its origin and what comes next (F15, F18)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext as _

from nodes.identity import Identity, Origin, ensure_identity
from tunnelmesh.common.errors import DomainError, ExitCode
from tunnelmesh.conf.options import add_server_options, server_config
from tunnelmesh.conf.schema import RelaySection


class Command(BaseCommand):
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.description = _("Find or create this node's identity and write it into the configuration.")
        add_server_options(parser)

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            loaded = server_config(options)
            identity = ensure_identity(loaded)
        except DomainError as error:
            raise CommandError(str(error), returncode=ExitCode.REFUSED_CONFIG) from None
        self.stdout.write(identity.node_id)
        self.stdout.write(_origin(identity))
        if identity.unwritten:
            raise CommandError(str(identity.unwritten), returncode=ExitCode.REFUSED_CONFIG)
        self.stdout.write(_next_steps(identity, relay=loaded.value.server.relay, config=str(loaded.path)))


def _origin(identity: Identity) -> str:
    if identity.origin is Origin.LOCAL:
        return _("Local mode: a single node is called so unless node.id says otherwise. Nothing was written.")
    if identity.origin is Origin.GENERATED:
        return _("A new identity; it was written into %(path)s.") % {"path": identity.written}
    if identity.written:
        return _("From the %(source)s; it was written into %(path)s.") % {
            "source": identity.source,
            "path": identity.written,
        }
    return _("From the %(source)s. Nothing was written.") % {"source": identity.source}


def _next_steps(identity: Identity, *, relay: RelaySection, config: str) -> str:
    """F18, without the steps that the configuration and the files that it names show as done."""
    values = {"id": identity.node_id, "config": config}
    steps = [] if identity.origin is Origin.LOCAL else list(_missing(relay))
    steps.append("tunnelmesh check_config --config %(config)s")
    steps.append(_("tunnelmesh run_relay --config %(config)s (or restart the service)"))
    lines = [f"{number}. {step % values}" for number, step in enumerate(steps, start=1)]
    return "\n".join([_("Next:"), *lines])


def _missing(relay: RelaySection) -> Iterator[str]:
    if not all(map(_there, (relay.ca, relay.cert, relay.key))):
        yield _(
            "A relay certificate whose only DNS name without a dot is the id, for server and client authentication:\n"
            "     openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN=%(id)s \\\n"
            "       -addext subjectAltName=DNS:%(id)s -keyout relay.key -out relay.csr\n"
            "   Have the fleet's CA sign it; put the paths into server.relay.cert, key and ca."
        )
    token = relay.node_token
    if token is None or (token.file and not _there(token.file)):
        yield _(
            "The fleet's token in a file that only the service can read, and server.relay.node_token: file:/its/path\n"
            "   (a new one: tunnelmesh issue_token --type server_node --name fleet --fleet)."
        )


def _there(path: Path | None) -> bool:
    """Also where this user may not look: it is no step that is open then."""
    try:
        return path is not None and path.exists()
    except PermissionError:
        return True
