"""The ring of refused strangers: bounded, because anybody may fill it (D13)."""

from __future__ import annotations

from django.db import transaction

from tokens.models import RefusedAttempt
from tunnelmesh.common.secrets import redact
from tunnelmesh.db.clock import database_now

RING_SIZE = 1000


@transaction.atomic
def refusal_record(door: str, *, check_name: str, claimed_id: str, source_address: str, reason: str) -> None:
    """Write one refused attempt and let the oldest above `RING_SIZE` go. What strangers sent is cut and masked."""
    attempt = RefusedAttempt.objects.create(
        created_at=database_now(),
        door=door,
        check_name=check_name,
        claimed_id=_clean(claimed_id, 191),
        source_address=source_address,
        reason=_clean(reason, 500),
    )
    RefusedAttempt.objects.filter(id__lte=attempt.id - RING_SIZE).delete()


def _clean(text: str, length: int) -> str:
    return redact(text).encode("ascii", "backslashreplace").decode("ascii")[:length]
