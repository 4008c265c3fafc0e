"""The only writer of the audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.secrets import MASK, redact

_SECRET_KEYS = {"secret", "token", "password", "digest", "previous_digest", "authorization", "private_key"}


def record(
    action: str,
    *,
    actor: str,
    target: str,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    source_address: str = "",
    request_id: str = "",
) -> AuditEvent:
    """Write one event, in the transaction of the change that it describes (P14); raises outside of one.

    `action` is `noun.past_participle`, `target` is `table:id`. Secrets are masked, by key and by form.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError(f"audit of {action} outside a transaction: open one around the change and its record")
    return AuditEvent.objects.create(
        created_at=Now(),
        actor=actor,
        action=action,
        target=target,
        before=_encode(before),
        after=_encode(after),
        source_address=source_address,
        request_id=request_id,
    )


def _encode(values: Mapping[str, object] | None) -> str:
    return redact(json.dumps(_masked(values or {}), default=str, ensure_ascii=False, sort_keys=True))


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: MASK if key in _SECRET_KEYS else _masked(inner) for key, inner in value.items()}
    return [_masked(inner) for inner in value] if isinstance(value, list | tuple) else value
