"""The kinds of value that a configuration key can hold: how its text is read and what is allowed; pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tunnelmesh.common.ids import is_node_id
from tunnelmesh.common.logging import LEVELS
from tunnelmesh.conf.address import Address
from tunnelmesh.conf.secretref import SecretRef

TEXT, INTEGER, FLOAT = "str", "int", "float"
Mode = Literal["cluster", "local"]
_PIN_RE = re.compile(r"sha256:[0-9a-f]{64}")
_URL_RE = re.compile(r"(?P<scheme>[a-z][a-z0-9+]*)://(?P<user>[^/@]*@)?\S+")


@dataclass(frozen=True, slots=True)
class Kind:
    """``read`` turns the text of a value into the value, or raises ValueError; ``allowed`` says in words what it takes.

    ``tags`` are the YAML types that may carry it: `id: 123` is a number and no text. ``shape`` says whether the key
    holds one value, a list of them, or names with values.
    """

    allowed: str
    read: Callable[[str], Any]
    tags: tuple[str, ...] = (TEXT,)
    shape: Literal["one", "list", "map"] = "one"
    secret: bool = False
    show: Callable[[Any], str] = str


def _must(condition: object) -> None:
    if not condition:
        raise ValueError


def _address(*, port_zero: bool) -> Callable[[str], Address]:
    def read(text: str) -> Address:
        address = Address.parse(text)
        _must(port_zero or address.port)
        return address

    return read


def _path(text: str) -> Path:
    _must(text.startswith("/") and text.isprintable())
    return Path(text)


def _node_id(text: str) -> str:
    _must(is_node_id(text))
    return text


def _pin(text: str) -> str:
    _must(_PIN_RE.fullmatch(text))
    return text


def _line(text: str) -> str:
    _must(text.strip() == text and 0 < len(text) <= 256 and text.isprintable())
    return text


def _database_url(text: str) -> str:
    match = _URL_RE.fullmatch(text)
    _must(match and match["scheme"] in ("sqlite", "mysql"))
    return text


def mask_url(text: str) -> str:
    """``text`` without what stands before the `@`: user and password."""
    return re.sub(r"//[^/@]*@", "//********@", text)


def choice(*values: str) -> Kind:
    def read(text: str) -> str:
        _must(text in values)
        return text

    return Kind(" or ".join(values) if len(values) < 3 else f"one of {', '.join(values)}", read)


def integer(low: int, high: int) -> Kind:
    def read(text: str) -> int:
        number = int(text)
        _must(low <= number <= high)
        return number

    return Kind(f"a whole number from {low} to {high}", read, tags=(INTEGER,))


def seconds(low: float, high: float) -> Kind:
    def read(text: str) -> float:
        number = float(text)
        _must(low <= number <= high)
        return number

    return Kind(f"seconds, from {low:g} to {high:g}", read, tags=(INTEGER, FLOAT), show=lambda value: f"{value:g}")


def many(kind: Kind) -> Kind:
    return Kind(f"a list, each {kind.allowed}", kind.read, tags=kind.tags, shape="list", show=kind.show)


LISTEN = Kind("host:port, an IPv6 address in brackets; port 0 takes a free one", _address(port_zero=True))
REMOTE = Kind("host:port, an IPv6 address in brackets", _address(port_zero=False))
PATH = Kind("an absolute path", _path)
NODE_ID = Kind("1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'", _node_id)
PIN = Kind("sha256: and 64 lower-case hex digits", _pin)
LINE = Kind("up to 256 printable characters", _line)
NAMES = Kind("names with values, each up to 256 printable characters", _line, shape="map")
SECRET = Kind("env:NAME, file:/path, store:path#field, or the secret itself", SecretRef.parse, secret=True)
DATABASE_URL = Kind("sqlite:////absolute/path or mysql://…", _database_url, secret=True, show=mask_url)
LEVEL = choice(*LEVELS)
FORMAT = choice("json", "text")
MODE = choice("cluster", "local")
