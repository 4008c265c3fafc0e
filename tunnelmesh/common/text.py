"""Text that people type and that pages and logs show again: what a name may be (R33)."""

from __future__ import annotations

import unicodedata

from tunnelmesh.common.errors import Invalid

NAME_MAX = 191
_REFUSED = {"Cc": "control", "Cf": "format", "Cs": "surrogate", "Co": "private", "Zl": "line", "Zp": "paragraph"}


def check_name(text: str, *, field: str = "name") -> str:
    """Return `text` unchanged, or raise `Invalid`: empty, too long, padded, or with characters that change a line."""
    if not text or text != text.strip():
        raise Invalid("bad_name", f"{field} is empty or begins or ends with a space", hint=f"give a {field}")
    if len(text) > NAME_MAX:
        raise Invalid("bad_name", f"{field} has {len(text)} characters", hint=f"use at most {NAME_MAX}")
    for character in text:
        if kind := _REFUSED.get(unicodedata.category(character)):
            raise Invalid(
                "bad_name", f"{field} contains U+{ord(character):04X}, a {kind} character", hint="leave it out"
            )
    return text
