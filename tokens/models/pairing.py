"""A request to become a device, from its first message to the one collection of its token (D11, D12)."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from tokens.models.device import Device
from tunnelmesh.common.fields import AsciiField


class PairingRequest(models.Model):
    """`poll_digest` is the digest of the unguessable id that the requester polls with."""

    class Status(models.TextChoices):
        OPEN = "open", _("open")
        APPROVED = "approved", _("approved")
        DENIED = "denied", _("denied")
        COLLECTED = "collected", _("collected")

    poll_digest = AsciiField(max_length=64, unique=True)
    nonce_digest = AsciiField(max_length=64)
    status = AsciiField(_("status"), max_length=15, choices=Status.choices, default=Status.OPEN)
    display_name = models.CharField(_("display name"), max_length=191)
    platform = AsciiField(_("platform"), max_length=63)
    node_identity = AsciiField(_("installation"), max_length=63)
    scope = models.TextField(_("scope"))
    public_key = models.TextField(_("public key"))
    certificate_pin = AsciiField(_("pinned certificate"), max_length=95)
    callback_url = models.CharField(_("callback address"), max_length=1000)
    source_address = AsciiField(_("source address"), max_length=63, db_index=True)
    wrong_answers = models.SmallIntegerField(_("wrong answers"), default=0)
    device = models.ForeignKey(Device, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("device"))
    created_at = models.DateTimeField(_("created at"))
    expires_at = models.DateTimeField(_("expires at"))
    decided_at = models.DateTimeField(_("decided at"), null=True)
    collected_at = models.DateTimeField(_("collected at"), null=True)

    class Meta:
        db_table = "pairing_requests"
        verbose_name = _("pairing request")
        verbose_name_plural = _("pairing requests")

    def __str__(self) -> str:
        return self.display_name
