"""The TLS files of a node, loaded and checked before the node shows itself to anybody."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import datetime

from relay.net import tls
from tunnelmesh.common.errors import Refused
from tunnelmesh.conf.schema import AgentsSection, RelaySection, ServerConfig


@dataclass(frozen=True, slots=True)
class RelayFiles:
    """What this node is to its peers, as acceptor and as dialler, and the facts of its certificate."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    not_after: datetime
    fingerprint: str


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """`relay` is None in local mode, `agents` on a node that takes no agents."""

    relay: RelayFiles | None
    agents: ssl.SSLContext | None


def node_files(config: ServerConfig, *, node_id: str) -> NodeFiles:
    """Load what the configuration names. Raises Refused when a file is missing or unusable, or when the relay
    certificate is not this node's own (F18)."""
    relay = config.server.relay
    try:
        return NodeFiles(
            relay=_relay_files(relay, node_id) if config.mode == "cluster" else None,
            agents=_agents_context(config.server.agents),
        )
    except tls.TlsFileError as error:
        raise Refused("bad_tls_file", str(error), hint="mend that file, then run: tunnelmesh check_config") from error


def _relay_files(relay: RelaySection, node_id: str) -> RelayFiles:
    if relay.ca is None or relay.cert is None or relay.key is None:
        missing = next(name for name in ("ca", "cert", "key") if getattr(relay, name) is None)
        raise Refused(
            "no_relay_files",
            f"cluster mode needs server.relay.ca, .cert and .key; server.relay.{missing} is not given",
            hint="name the files in server.yaml, or set mode: local; then run: tunnelmesh check_config",
        )
    certificate = tls.certificate_of(relay.cert)
    server = tls.relay_server_context(ca=relay.ca, cert=relay.cert, key=relay.key)
    client = tls.relay_client_context(ca=relay.ca, cert=relay.cert, key=relay.key)
    if tls.node_id_of(certificate) != node_id:
        found = ", ".join(tls.dns_names(certificate)) or "none"
        raise Refused(
            "foreign_certificate",
            f"server.relay.cert {relay.cert}: its one DNS name without a dot must be this node's id, {node_id}; "
            f"found the DNS names: {found}",
            hint=f"issue a certificate for {node_id}, or mend node.id; then run: tunnelmesh check_config",
        )
    return RelayFiles(server, client, tls.not_after(certificate), tls.fingerprint(certificate))


def _agents_context(agents: AgentsSection) -> ssl.SSLContext | None:
    if agents.cert is None or agents.key is None:
        return None
    return tls.agents_server_context(cert=agents.cert, key=agents.key)
