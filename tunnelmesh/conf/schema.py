"""What server.yaml and agent.yaml may say: every key with its kind, its default, its meaning and the rules that bind
several keys; pure. The example files and docs/configuration.md are made from here."""
# ruff: noqa: RUF009  setting() and section() make dataclass fields, no shared values

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tunnelmesh.common.logging import LogFormat
from tunnelmesh.conf import kinds
from tunnelmesh.conf.address import Address
from tunnelmesh.conf.kinds import Kind, Mode
from tunnelmesh.conf.secretref import SecretRef

__all__ = ["Address", "AgentConfig", "Broken", "SecretRef", "Section", "ServerConfig", "settings"]


class Broken(NamedTuple):
    """A rule between keys that does not hold; ``key`` is relative to the section that states the rule."""

    key: str
    text: str


class Section:
    """Base of every section. One with rules between its keys says in ``broken`` which do not hold."""

    def broken(self) -> Iterator[Broken]:
        yield from ()


def setting(kind: Kind, doc: str, *, default: Any = dataclasses.MISSING, example: str = "") -> Any:
    """One key. Without a default it must be given; ``example`` is for a key that has no default to show."""
    metadata = {"kind": kind, "doc": doc, "example": example}
    if kind.shape == "map":
        return dataclasses.field(default_factory=lambda: MappingProxyType({}), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata, repr=not kind.secret)


def section(cls: type[Section], doc: str) -> Any:
    return dataclasses.field(default_factory=cls, metadata={"section": cls, "doc": doc})


def settings(cls: type[Section], *, prefix: str = "") -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    """Every key below ``cls`` with its dotted name, in the order of the file."""
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if "section" in field.metadata:
            yield from settings(field.metadata["section"], prefix=f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", field


def _pair(cert: object, key: object) -> Iterator[Broken]:
    if (cert is None) != (key is None):
        given, missing = ("cert", "key") if key is None else ("key", "cert")
        yield Broken(missing, f"missing, although {given} is given: a TLS listener needs both")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeSection(Section):
    id: str | None = setting(
        kinds.NODE_ID,
        "This node's id: one DNS label, unique for ever in the fleet, and the one dot-less DNS name in its relay "
        "certificate. Leave it empty in cluster mode: `init_node_id` (or the first start) writes it here. In local "
        "mode empty means `local`.",
        default=None,
        example="server-0123456789abcdef0123456789abcdef",
    )
    state_dir: Path = setting(
        kinds.PATH,
        "The folder of the file `node-id`, an identity that an earlier installation may have left. It is only read.",
        default=Path("/var/lib/tunnelmesh"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatabaseSection(Section):
    url: str = setting(
        kinds.DATABASE_URL,
        "SQLite serves the nodes of one host: sqlite:// and then an absolute path, so four slashes. This version "
        "refuses mysql://.",
        default="sqlite:////var/lib/tunnelmesh/tunnelmesh.sqlite3",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebSection(Section):
    listen: Address = setting(
        kinds.LISTEN,
        "Console and API: plain HTTP for a TLS proxy on this host, and for nobody else to reach. Nothing listens there "
        "by itself yet: give the same address to gunicorn.",
        default=Address("127.0.0.1", 8000),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentsSection(Section):
    listen: Address = setting(
        kinds.LISTEN,
        "TLS for agents and clients. On loopback only this host reaches it: name the address that agents dial, or "
        "0.0.0.0 for all addresses.",
        default=Address("127.0.0.1", 7443),
    )
    cert: Path | None = setting(
        kinds.PATH,
        "PEM certificate chain that agents see. Without it this node takes no agents.",
        default=None,
        example="/etc/tunnelmesh/agents.crt",
    )
    key: Path | None = setting(
        kinds.PATH,
        "PEM private key of that certificate, readable by the service alone.",
        default=None,
        example="/etc/tunnelmesh/agents.key",
    )

    def broken(self) -> Iterator[Broken]:
        yield from _pair(self.cert, self.key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelaySection(Section):
    listen: Address = setting(
        kinds.LISTEN,
        "Mutual TLS for the other nodes. On loopback only this host reaches it: name the address that nodes dial, or "
        "0.0.0.0 for all addresses.",
        default=Address("127.0.0.1", 9443),
    )
    endpoint: Address | None = setting(
        kinds.REMOTE,
        "What other nodes dial to reach this one. Empty means the listen address, which must then name one address.",
        default=None,
        example="node-a.internal:9443",
    )
    ca: Path | None = setting(
        kinds.PATH,
        "PEM bundle of the CAs that sign the nodes' relay certificates.",
        default=None,
        example="/etc/tunnelmesh/relay-ca.crt",
    )
    cert: Path | None = setting(
        kinds.PATH,
        "PEM certificate chain of this node: exactly one DNS name without a dot, the node id; for server and client "
        "authentication. Without it there is no relay.",
        default=None,
        example="/etc/tunnelmesh/relay.crt",
    )
    key: Path | None = setting(
        kinds.PATH,
        "PEM private key of that certificate, readable by the service alone.",
        default=None,
        example="/etc/tunnelmesh/relay.key",
    )
    node_token: SecretRef | None = setting(
        kinds.SECRET,
        "The fleet's `server_node` token, by reference.",
        default=None,
        example="file:/etc/tunnelmesh/node-token",
    )

    def broken(self) -> Iterator[Broken]:
        yield from _pair(self.cert, self.key)
        if self.endpoint and self.endpoint.is_wildcard:
            yield Broken("endpoint", f"{self.endpoint} means every address; other nodes need one that they can dial")

    @property
    def advertised(self) -> Address | None:
        """What other nodes dial, or None when the configuration does not say it."""
        if self.endpoint or self.listen.is_wildcard or not self.listen.port:
            return self.endpoint
        return self.listen


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdminSection(Section):
    listen: Address = setting(
        kinds.LISTEN,
        "Health and metrics of this process (/health/live, /health/ready, /metrics), plain HTTP without a login.",
        default=Address("127.0.0.1", 9464),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionLimits(Section):
    """Bounds of every session, whichever side dialled (faults.md, section 4, has the reason of each number)."""

    connect: float = setting(kinds.seconds(0.1, 600), "TCP connect when dialling, seconds.", default=5.0)
    handshake: float = setting(kinds.seconds(0.1, 600), "TLS handshake when dialling, seconds.", default=10.0)
    upgrade: float = setting(
        kinds.seconds(0.1, 600),
        "A complete upgrade head, seconds: since accept, TLS included; since the TLS handshake when dialling.",
        default=10.0,
    )
    keepalive: float = setting(
        kinds.seconds(2, 600), "A ping this often, seconds; load balancers cut idle links at 60.", default=20.0
    )
    keepalive_answer: float = setting(
        kinds.seconds(2, 600), "Silence this long after a ping means a dead peer, seconds.", default=15.0
    )
    max_streams: int = setting(kinds.integer(1, 65536), "Streams open at once in one session.", default=1024)
    backlog: int = setting(
        kinds.integer(1, 65536), "Streams that the peer opened and nobody answered yet.", default=256
    )
    resets: int = setting(
        kinds.integer(1, 1_000_000),
        "Streams that a peer may open and reset in 10 s, beyond one whole backlog, before it is cut.",
        default=200,
    )
    reconnect_first: float = setting(
        kinds.seconds(0.1, 3600),
        "Longest first pause before dialling again, seconds; doubles, with jitter.",
        default=1.0,
    )
    reconnect_longest: float = setting(
        kinds.seconds(0.1, 3600),
        "Longest later pause, seconds; after a refusal that does not pass by itself it is 60 to 300, whatever stands "
        "here.",
        default=60.0,
    )
    drain: float = setting(
        kinds.seconds(0, 3600),
        "At the end, streams may finish for this long before they are reset, seconds.",
        default=30.0,
    )

    def broken(self) -> Iterator[Broken]:
        if self.reconnect_first > self.reconnect_longest:
            yield Broken("reconnect_first", f"{self.reconnect_first:g} is more than reconnect_longest")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerLimits(SessionLimits):
    unauthenticated: int = setting(
        kinds.integer(1, 65536),
        "Connections that have not proved who they are; beyond it the oldest goes.",
        default=256,
    )
    unauthenticated_per_address: int = setting(kinds.integer(1, 65536), "The same, from one address.", default=16)

    def broken(self) -> Iterator[Broken]:
        yield from super().broken()
        if self.unauthenticated_per_address > self.unauthenticated:
            yield Broken(
                "unauthenticated_per_address", f"{self.unauthenticated_per_address} is more than unauthenticated"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSection(Section):
    web: WebSection = section(WebSection, "The console and the API.")
    agents: AgentsSection = section(AgentsSection, "Where agents and clients connect.")
    relay: RelaySection = section(
        RelaySection, "Where the other nodes connect, and how this node proves itself to them."
    )
    admin: AdminSection = section(AdminSection, "For the operator and the monitoring of this host.")
    limits: ServerLimits = section(ServerLimits, "Bounds; the defaults are tested, so change one for a reason only.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoggingSection(Section):
    level: str = setting(kinds.LEVEL, "How much is logged, on standard error.", default="INFO")
    format: LogFormat = setting(kinds.FORMAT, "`text` for people, `json` for machines.", default="text")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerConfig(Section):
    """A node's configuration, /etc/tunnelmesh/server.yaml."""

    mode: Mode = setting(
        kinds.MODE,
        "`cluster`: one node of a fleet, which the others know by its id and certificate. `local`: the only node, no "
        "relay.",
        default="cluster",
    )
    node: NodeSection = section(NodeSection, "Who this node is.")
    database: DatabaseSection = section(DatabaseSection, "The one state that nodes and console share.")
    server: ServerSection = section(ServerSection, "What this node offers, and to whom.")
    logging: LoggingSection = section(LoggingSection, "The log of every process that reads this file.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentConfig(Section):
    """An agent's configuration, /etc/tunnelmesh/agent.yaml."""

    name: str = setting(kinds.NODE_ID, "This agent's id, the one that its token names.", example="agent-1")
    servers: tuple[Address, ...] = setting(
        kinds.many(kinds.REMOTE),
        "The nodes' agent listeners. The agent holds a connection to each of them.",
        example="[node-a.example.org:7443, node-b.example.org:7443]",
    )
    token: SecretRef = setting(
        kinds.SECRET, "The agent's token, by reference.", example="file:/etc/tunnelmesh/agent-token"
    )
    pins: tuple[str, ...] = setting(
        kinds.many(kinds.PIN),
        "SHA-256 of the public key (SubjectPublicKeyInfo) of each server that may answer. Pins or `ca` must be given; "
        "if both are, both must hold. `check_config` on a node prints the pin of its agents' certificate.",
        default=(),
        example="[sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef]",
    )
    ca: Path | None = setting(
        kinds.PATH,
        "PEM bundle of the CAs that sign the servers' certificates; the name dialled must then be in the certificate.",
        default=None,
        example="/etc/tunnelmesh/servers-ca.crt",
    )
    server_name: str | None = setting(
        kinds.LINE,
        "The name to find in the certificate instead of the one dialled; only with `ca`.",
        default=None,
        example="tunnelmesh.example.org",
    )
    allow: tuple[str, ...] = setting(
        kinds.many(kinds.LINE),
        "What this agent may connect to, each host:port. The host is a name, an address, a CIDR or *; the port is a "
        "number, a range or *. Nothing is allowed by default.",
        default=(),
        example='["127.0.0.1:8080", "10.0.0.0/8:443", "db.internal:5432-5439"]',
    )
    metadata: Mapping[str, str] = setting(
        kinds.NAMES,
        "Names and values about this agent, for people. Accepted; this version shows them nowhere yet.",
        example="{site: cellar, rack: 3b}",
    )
    limits: SessionLimits = section(SessionLimits, "Bounds; the defaults are tested, so change one for a reason only.")
    logging: LoggingSection = section(LoggingSection, "The agent's log.")

    def broken(self) -> Iterator[Broken]:
        if not self.servers:
            yield Broken("servers", "empty: an agent needs at least one server to dial")
        if not self.pins and self.ca is None:
            yield Broken("pins", "neither pins nor ca is given: an unverified server would get this agent's token")
        if self.server_name and self.ca is None:
            yield Broken("server_name", "is compared with a certificate that ca verifies, and no ca is given")
