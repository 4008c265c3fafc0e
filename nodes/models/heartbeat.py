"""The hot row of a node: the only one that its heartbeat writes."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from nodes.models.server_node import ServerNode


class Heartbeat(models.Model):
    """`epoch` equals the node's: registration writes both, and a beat under an older one matches no row.

    `expires_at` is null from a registration to its first beat. `unreachable_peers` is a JSON list of node ids.
    """

    server_node = models.OneToOneField(
        ServerNode, on_delete=models.PROTECT, primary_key=True, related_name="heartbeat", verbose_name=_("server node")
    )
    epoch = models.BigIntegerField(_("epoch"))
    last_seen_at = models.DateTimeField(_("last seen"), null=True)
    expires_at = models.DateTimeField(_("expires at"), null=True)
    draining = models.BooleanField(_("draining"), default=False)
    unreachable_peers = models.TextField(_("unreachable peers"), default="[]")

    class Meta:
        db_table = "server_node_heartbeats"
        verbose_name = _("heartbeat")
        verbose_name_plural = _("heartbeats")

    def __str__(self) -> str:
        return f"{self.server_node_id}@{self.epoch}"
