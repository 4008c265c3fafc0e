"""The authorisation revision moves with every change of who may do what, in the change's own transaction."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from nodes.models import AuthorisationRevision


def authorisation_touch() -> None:
    """Move the counter; raises outside a transaction, where it could move without the change."""
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("the authorisation revision moves only in the transaction of the change")
    row = AuthorisationRevision.objects.filter(id=1)
    if not row.update(value=F("value") + 1):
        AuthorisationRevision.objects.get_or_create(id=1)
        row.update(value=F("value") + 1)
