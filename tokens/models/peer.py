"""A peer: another installation that we call, and the grant that it holds here in return (D6, D14)."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from tokens.models.device import Device
from tunnelmesh.common.fields import AsciiField


class Peer(models.Model):
    """`base_url` is only an address; `credential` is a reference into the store, never a value."""

    name = models.CharField(_("name"), max_length=191)
    base_url = models.CharField(_("address"), max_length=1000)
    credential = models.CharField(_("credential"), max_length=255)
    mode = AsciiField(_("mode"), max_length=15)
    certificate_pin = AsciiField(_("pinned certificate"), max_length=95)
    reverse_grant = models.ForeignKey(
        Device, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("reverse grant")
    )
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))

    class Meta:
        db_table = "peers"
        verbose_name = _("peer")
        verbose_name_plural = _("peers")

    def __str__(self) -> str:
        return self.name
