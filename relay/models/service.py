"""A published service: a named target behind an agent."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from tunnelmesh.common.fields import AsciiField
from tunnelmesh.common.ids import NODE_ID_MAX
from tunnelmesh.common.softdelete import SoftDelete


class Service(SoftDelete):
    """`host` and `port` are as the agent sees them. The name follows the grammar of ids and is unique for ever."""

    class Protocol(models.TextChoices):
        TCP = "tcp", "TCP"

    name = AsciiField(_("name"), max_length=63, unique=True)
    agent_id = AsciiField(_("agent id"), max_length=NODE_ID_MAX, db_index=True)
    protocol = AsciiField(_("protocol"), max_length=15, choices=Protocol.choices, default=Protocol.TCP)
    host = AsciiField(_("host"), max_length=253)
    port = models.IntegerField(_("port"))
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(_("created at"), editable=False)
    updated_at = models.DateTimeField(_("updated at"), editable=False)

    class Meta(SoftDelete.Meta):
        db_table = "services"
        verbose_name = _("service")
        verbose_name_plural = _("services")

    def __str__(self) -> str:
        return self.name
