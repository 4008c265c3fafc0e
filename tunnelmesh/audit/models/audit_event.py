"""One line of the audit log; it is written once and never again (F28, P14)."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _

from tunnelmesh.common.errors import Refused
from tunnelmesh.common.fields import AsciiField


def _append_only(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise Refused(
        "append_only",
        "the audit log is append-only: an event is neither changed nor removed",
        hint="record another event with tunnelmesh.audit.services.record()",
    )


class AuditQuerySet(models.QuerySet["AuditEvent"]):
    """Reads and inserts; everything else raises."""

    update = delete = _raw_delete = bulk_update = update_or_create = _append_only


class AuditEvent(models.Model):
    """`before` and `after` are JSON texts of what the action changed; `services.record` is the only writer."""

    created_at = models.DateTimeField(_("created at"), db_index=True)
    actor = models.CharField(_("actor"), max_length=191)
    action = AsciiField(_("action"), max_length=63)
    target = models.CharField(_("target"), max_length=191)
    before = models.TextField(_("before"))
    after = models.TextField(_("after"))
    request_id = AsciiField(_("request id"), max_length=63)
    source_address = AsciiField(_("source address"), max_length=63)

    objects = AuditQuerySet.as_manager()

    class Meta:
        db_table = "audit_logs"
        base_manager_name = "objects"
        verbose_name = _("audit event")
        verbose_name_plural = _("audit events")
        indexes = (models.Index(fields=["target", "action", "created_at"], name="audit_logs_target"),)

    def __str__(self) -> str:
        return f"{self.action} {self.target}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            _append_only()
        super().save(*args, **kwargs)

    delete = _append_only
