"""A device: the grant of one agent installation, with its own token and key (D3, D17)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from tunnelmesh.common.fields import AsciiField
from tunnelmesh.common.softdelete import SoftDelete


class Device(SoftDelete):
    """`node_identity` recognises an installation again; neither it nor `display_name` grants anything (D2)."""

    class Status(models.TextChoices):
        ACTIVE = "active", _("active")
        PAUSED = "paused", _("paused")

    display_name = models.CharField(_("display name"), max_length=191)
    platform = AsciiField(_("platform"), max_length=63)
    node_identity = AsciiField(_("installation"), max_length=63, db_index=True)
    status = AsciiField(_("status"), max_length=15, choices=Status.choices, default=Status.ACTIVE)
    scope = models.TextField(_("scope"))
    prefix = AsciiField(_("hint"), max_length=15)
    digest = AsciiField(max_length=64, unique=True)
    public_key = models.TextField(_("public key"))
    certificate_pin = AsciiField(_("pinned certificate"), max_length=95)
    callback_url = models.CharField(_("callback address"), max_length=1000)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", verbose_name=_("approved by")
    )
    approved_at = models.DateTimeField(_("approved at"))
    expires_at = models.DateTimeField(_("expires at"), null=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True)
    use_count = models.BigIntegerField(_("use count"), default=0)
    last_used_at = models.DateTimeField(_("last used at"), null=True)
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))

    class Meta(SoftDelete.Meta):
        db_table = "devices"
        verbose_name = _("device")
        verbose_name_plural = _("devices")

    def __str__(self) -> str:
        return self.display_name
