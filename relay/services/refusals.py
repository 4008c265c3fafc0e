"""Where a refusal is written down: strangers' in the bounded ring, members' in the audit (design.md section 3)."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from relay.gate import Refusal
from tokens.services.refusals import refusal_record
from tunnelmesh.audit import services as audit
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.db.clock import database_now

LAST_OF_STRANGERS = 4
AUDITED_EVERY = timedelta(minutes=1)


def refusal_note(refusal: Refusal, *, door: str, target: str, claimed_id: str, source: str) -> None:
    """Rows 1-4 go to the ring; rows 5-9 to the audit, at most once a minute for a target and check."""
    if refusal.check > LAST_OF_STRANGERS:
        _audit(refusal, target, source)
    elif refusal.check:
        refusal_record(
            door, check_name=refusal.check_name, claimed_id=claimed_id, source_address=source, reason=refusal.reason
        )


def _audit(refusal: Refusal, target: str, source: str) -> None:
    action = f"admission.refused.{refusal.check_name}"
    with transaction.atomic():
        recent = AuditEvent.objects.filter(target=target, action=action, created_at__gt=database_now() - AUDITED_EVERY)
        if not recent.exists():
            after = {"check": refusal.check, "code": refusal.code, "reason": refusal.reason}
            audit.record(action, actor=target, target=target, after=after, source_address=source)
