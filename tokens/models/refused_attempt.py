"""The ring of refused strangers, for the operator to see (D13)."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from tunnelmesh.common.fields import AsciiField


class RefusedAttempt(models.Model):
    """At most `services.refusals.RING_SIZE` rows, shared by all processes; the oldest makes room."""

    created_at = models.DateTimeField(_("created at"))
    door = AsciiField(_("door"), max_length=31)
    check_name = AsciiField(_("check"), max_length=31)
    claimed_id = models.CharField(_("claimed id"), max_length=191)
    source_address = AsciiField(_("source address"), max_length=63)
    reason = models.CharField(_("reason"), max_length=500)

    class Meta:
        db_table = "refused_attempts"
        verbose_name = _("refused attempt")
        verbose_name_plural = _("refused attempts")

    def __str__(self) -> str:
        return f"{self.door} {self.source_address}"
