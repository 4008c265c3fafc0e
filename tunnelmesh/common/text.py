"""Text that people type and that pages and logs show again: what a name may be (R33)."""

from __future__ import annotations

import unicodedata

from django.utils.translation import gettext as _

from tunnelmesh.common.errors import Invalid

NAME_MAX = 191
_REFUSED = {"Cc": "control", "Cf": "format", "Cs": "surrogate", "Co": "private", "Zl": "line", "Zp": "paragraph"}


def check_name(text: str, *, field: str = "name") -> str:
    """Return `text` unchanged, or raise `Invalid`: empty, too long, padded, or with characters that change a line."""
    if not text or text != text.strip():
        told = _("%(field)s is empty or begins or ends with a space") % {"field": field}
        raise Invalid("bad_name", told, hint=_("give a %(field)s") % {"field": field})
    if len(text) > NAME_MAX:
        told = _("%(field)s has %(count)d characters") % {"field": field, "count": len(text)}
        raise Invalid("bad_name", told, hint=_("use at most %(count)d") % {"count": NAME_MAX})
    for character in text:
        if kind := _REFUSED.get(unicodedata.category(character)):
            values = {"field": field, "character": f"U+{ord(character):04X}", "kind": kind}
            told = _("%(field)s contains %(character)s, a %(kind)s character") % values
            raise Invalid("bad_name", told, hint=_("leave it out"))
    return text
