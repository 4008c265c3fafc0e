"""Refusals as `application/problem+json` (RFC 9457): the one form in which a door or a stream says no."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from relay.protocol.errors import BadHead
from relay.protocol.heads import build, parse_response

TITLES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    412: "Precondition Failed",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
MAX_BODY: Final = 4096

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NUMBER: Final = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal: HTTP status, stable machine code, and a sentence that a stranger may read."""

    status: int
    code: str
    detail: str = ""
    retry_after: int | None = None
    """Seconds, sent as Retry-After."""

    def encode(self) -> bytes:
        """The whole answer: head and body."""
        title = TITLES.get(self.status, "Refused")
        document = {"type": "about:blank", "title": title, "status": self.status, "code": self.code}
        if self.detail:
            document["detail"] = self.detail
        body = json.dumps(document).encode()
        fields = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body)))]
        if self.status == 401:
            fields.append(("WWW-Authenticate", "Bearer"))
        if self.retry_after is not None:
            fields.append(("Retry-After", str(self.retry_after)))
        fields.append(("Connection", "close"))
        return build(f"HTTP/1.1 {self.status} {title}", fields) + body


def decode(head: bytes | bytearray, body: bytes | bytearray) -> Problem:
    """The problem in an answer; a body that is not one of ours gives the code `refused`. What a peer wrote is safe to
    log: one line, printable. Raises BadHead when the head is not a response."""
    response = parse_response(head)
    retry_after = response.fields.optional("retry-after")
    seconds = int(retry_after) if retry_after is not None and _NUMBER.fullmatch(retry_after) else None
    try:
        document = json.loads(body)
        code, detail = document["code"], document.get("detail", "")
        known = _CODE.fullmatch(code) is not None and isinstance(detail, str)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        return Problem(response.status, "refused", retry_after=seconds)
    printable = "".join(character if character.isprintable() else "?" for character in detail)
    return Problem(response.status, code, printable, seconds)


def body_length(head: bytes | bytearray) -> int:
    """How many bytes of body the answer announces, at most MAX_BODY. Raises BadHead."""
    text = parse_response(head).fields.optional("content-length")
    if text is None:
        return 0
    if not _NUMBER.fullmatch(text):
        raise BadHead("content-length is not a number")
    return min(int(text), MAX_BODY)
