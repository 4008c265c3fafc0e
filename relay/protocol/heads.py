"""HTTP/1.1 heads (RFC 9112, sections 2-5), as strict as the RFC allows: what two parsers could read apart is refused.

No bare LF, no folded lines, no white space before the colon, no control characters in values, at most one of each field
that the caller asks for with `single`. Every pattern matches in linear time: heads come from strangers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from relay.protocol.errors import BadHead

MAX_HEAD: Final = 16 * 1024
"""Bytes of one head with its empty line (faults.md, promise P2)."""
MAX_FIELDS: Final = 64
END: Final = b"\r\n\r\n"

_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
_FIRST = re.compile(rb"[\x20-\x7e]+")
_REQUEST = re.compile(rb"([A-Z]+) ([\x21-\x7e]+) HTTP/1\.1")
_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [\x20-\x7e\t]*")


@dataclass(frozen=True, slots=True)
class Fields:
    """Header fields in the order they came; names in lower case, values as Latin-1 text."""

    items: tuple[tuple[str, str], ...]

    def single(self, name: str) -> str:
        """The value of a field that must be there exactly once. Raises BadHead."""
        values = self.all(name)
        if len(values) != 1:
            raise BadHead(f"{name} is there {len(values)} times, expected once")
        return values[0]

    def optional(self, name: str) -> str | None:
        """The value of a field that may be there once, or None. Raises BadHead when it is there more often."""
        return self.single(name) if self.all(name) else None

    def all(self, name: str) -> list[str]:
        """Every value of a field, `name` in lower case."""
        return [value for key, value in self.items if key == name]

    def tokens(self, name: str) -> set[str]:
        """The comma-separated members of all values of a field, in lower case (RFC 9110, section 5.6.1)."""
        return {part.strip().lower() for value in self.all(name) for part in value.split(",")}


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A parsed request line with its fields."""

    method: str
    target: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A parsed status line with its fields."""

    status: int
    fields: Fields


def find_end(buffer: bytes | bytearray, limit: int = MAX_HEAD) -> int:
    """Where the head ends, with its empty line; 0 while it is incomplete. Raises BadHead above `limit` bytes."""
    found = buffer.find(END, 0, limit)
    if found >= 0:
        return found + len(END)
    if len(buffer) >= limit:
        raise BadHead(f"the head is longer than {limit} bytes")
    return 0


def parse_request(head: bytes | bytearray) -> RequestHead:
    """Parse a whole request head, its empty line included. Raises BadHead."""
    first, fields = _split(head)
    match = _REQUEST.fullmatch(first)
    if match is None:
        raise BadHead("not an HTTP/1.1 request line")
    return RequestHead(match[1].decode("ascii"), match[2].decode("ascii"), fields)


def parse_response(head: bytes | bytearray) -> ResponseHead:
    """Parse a whole response head, its empty line included. Raises BadHead."""
    first, fields = _split(head)
    match = _STATUS.fullmatch(first)
    if match is None:
        raise BadHead("not an HTTP/1.1 status line")
    return ResponseHead(int(match[1]), fields)


def build(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """A head with its empty line. Raises BadHead when a part cannot stand in one (a newline in a value, say)."""
    lines = [_line("the first line", first, _FIRST)]
    lines += [_line(f"field {name}", f"{name}: {value}", _FIELD) for name, value in fields]
    return b"\r\n".join(lines) + END


def _line(what: str, text: str, pattern: re.Pattern[bytes]) -> bytes:
    try:
        line = text.encode("latin-1")
    except UnicodeEncodeError:
        line = b""
    if pattern.fullmatch(line) is None:
        raise BadHead(f"{what} cannot be sent: it has characters that a head may not carry")
    return line


def _split(head: bytes | bytearray) -> tuple[bytes, Fields]:
    first, *lines = bytes(head).removesuffix(END).split(b"\r\n")
    if len(lines) > MAX_FIELDS:
        raise BadHead(f"{len(lines)} header fields, at most {MAX_FIELDS}")
    items = []
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise BadHead("a header field is not well-formed")
        items.append((match[1].decode("ascii").lower(), match[2].strip(b" \t").decode("latin-1")))
    return first, Fields(tuple(items))
