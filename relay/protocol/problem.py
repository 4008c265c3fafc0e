"""Refusals as `application/problem+json` (RFC 9457): the one form in which a door or a stream says no."""

from __future__ import annotations

import json
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
        title = TITLES[self.status]
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
    """The problem in an answer; a body that is not one of ours gives the code `refused`. Raises BadHead when the head
    is not a response."""
    response = parse_response(head)
    retry_after = response.fields.optional("retry-after")
    seconds = int(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    try:
        document = json.loads(body)
        code, detail = str(document["code"]), str(document.get("detail", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code, detail = "refused", ""
    return Problem(response.status, code, detail, seconds)


def body_length(head: bytes | bytearray) -> int:
    """How many bytes of body the answer announces, at most MAX_BODY. Raises BadHead."""
    text = parse_response(head).fields.optional("content-length") or "0"
    if not text.isdecimal() or len(text) > 6:
        raise BadHead("content-length is not a number")
    return min(int(text), MAX_BODY)
