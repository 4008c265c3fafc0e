"""Tokens: where they stand (T2), whether they can be read now, and whether they can be tokens at all."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from relay.checkup.files import secret_file
from relay.checkup.finding import Finding, failed, passed, warned
from tokens.secret import is_well_formed
from tunnelmesh.common.errors import DomainError
from tunnelmesh.conf.secretref import SecretRef


def token(check: str, ref: SecretRef, *, prefixes: tuple[str, ...]) -> Iterator[Finding]:
    """The token behind ``ref``; it is never shown. ``prefixes`` are those of the kinds that serve here."""
    if ref.is_literal:
        hint = _(
            "Move it into a file that only the service can read: file:/path; then change it, it may have been seen."
        )
        yield warned(check, _("the token stands in the configuration itself"), hint)
    try:
        secret = ref.resolve()
    except DomainError as error:
        yield failed(check, error.message, error.hint)
        return
    if ref.file:
        yield from secret_file(check, ref.file)
    if secret.reveal().startswith(prefixes) and is_well_formed(secret):
        yield passed(check, _("a well-formed token (%(ref)s)") % {"ref": ref})
    else:
        kind = _("Expected %(prefix)s and 49 characters. A new one: tunnelmesh issue_token --help")
        text = _("no token of the kind that is needed here, or not whole (%(ref)s)") % {"ref": ref}
        yield failed(check, text, kind % {"prefix": _(" or ").join(prefixes)})
