"""A Server node's record: what the administrator decides about it, and what its process says of itself at a start."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from tunnelmesh.common.fields import AsciiField
from tunnelmesh.common.ids import NODE_ID_MAX
from tunnelmesh.common.softdelete import SoftDelete


class ServerNode(SoftDelete):
    """Ids are unique for ever. Its process writes address, epoch, version and the certificate's columns only (F20)."""

    id = AsciiField(_("node id"), max_length=NODE_ID_MAX, primary_key=True)
    name = models.CharField(_("name"), max_length=191)
    address = models.CharField(_("address"), max_length=255, blank=True)
    epoch = models.BigIntegerField(_("epoch"), default=0)
    enabled = models.BooleanField(_("enabled"), default=True)
    version = AsciiField(_("version"), max_length=63, blank=True, default="")
    certificate_not_after = models.DateTimeField(_("certificate valid until"), null=True, blank=True)
    certificate_fingerprint = AsciiField(_("certificate fingerprint"), max_length=95, blank=True, default="")
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))

    class Meta(SoftDelete.Meta):
        db_table = "server_nodes"
        verbose_name = _("server node")
        verbose_name_plural = _("server nodes")

    def __str__(self) -> str:
        return self.id
