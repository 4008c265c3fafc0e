"""A policy: one grant of one service to one principal; without one, nobody (default deny)."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from relay.models.service import Service
from tunnelmesh.common.fields import AsciiField


class Policy(models.Model):
    """The principal is `user:ID`, `device:ID` or `service_token:ID`."""

    service = models.ForeignKey(
        Service, on_delete=models.PROTECT, db_index=False, related_name="policies", verbose_name=_("service")
    )
    principal = AsciiField(_("principal"), max_length=63)
    created_at = models.DateTimeField(_("created at"), editable=False)

    class Meta:
        db_table = "policies"
        verbose_name = _("policy")
        verbose_name_plural = _("policies")
        constraints = (models.UniqueConstraint(fields=["service", "principal"], name="policies_once"),)

    def __str__(self) -> str:
        return f"{self.principal} {self.service_id}"
