"""A route: an entry on one node or on all of them that leads to a service."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from nodes.models import ServerNode
from relay.models.service import Service
from tunnelmesh.common.fields import AsciiField
from tunnelmesh.common.softdelete import SoftDelete


class Route(SoftDelete):
    """A null `server_node` means every node. Kind `tcp` listens on `host` and `port`."""

    class Kind(models.TextChoices):
        TCP = "tcp", _("TCP port")

    service = models.ForeignKey(Service, on_delete=models.PROTECT, related_name="routes", verbose_name=_("service"))
    kind = AsciiField(_("kind"), max_length=15, choices=Kind.choices, default=Kind.TCP)
    server_node = models.ForeignKey(
        ServerNode,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="routes",
        verbose_name=_("server node"),
        help_text=_("Empty: every node opens this entry."),
    )
    host = AsciiField(_("listen address"), max_length=253, default="127.0.0.1")
    port = models.IntegerField(_("listen port"), null=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(_("created at"), editable=False)
    updated_at = models.DateTimeField(_("updated at"), editable=False)

    class Meta(SoftDelete.Meta):
        db_table = "routes"
        verbose_name = _("route")
        verbose_name_plural = _("routes")

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.port}"
