"""A host and a port as one value, written "host:port" with IPv6 in brackets; pure."""

import re
from dataclasses import dataclass
from ipaddress import ip_address

_TEXT_RE = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]/@]+)):(?P<port>[0-9]{1,5})")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME_RE = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_NUMERIC_RE = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen or to dial. ``host`` is a name or an address, without brackets; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read "host:port" or "[::1]:port"; ValueError for anything else, a missing host or port included."""
        match = _TEXT_RE.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise ValueError(text)
        host = match["v6"] or match["host"]
        if match["v6"] or _NUMERIC_RE.fullmatch(host):
            ip_address(host)
        elif not _NAME_RE.fullmatch(host):
            raise ValueError(text)
        return cls(host, int(match["port"]))

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or self._ip_is("is_loopback")

    @property
    def is_wildcard(self) -> bool:
        """Whether the host means every address of this machine, which no one can dial."""
        return self._ip_is("is_unspecified")

    def _ip_is(self, quality: str) -> bool:
        try:
            return bool(getattr(ip_address(self.host), quality))
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
