"""The lease of an agent connection: which node holds it, under which epoch, and how loaded it is."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from nodes.models.server_node import ServerNode
from tunnelmesh.common.fields import AsciiField
from tunnelmesh.common.ids import NODE_ID_MAX


class AgentConnection(models.Model):
    """Open until `closed_at`; live while, besides, its node's record is live at the same epoch.

    `generation` counts an agent's connections; the newest wins (P8).
    """

    agent_id = AsciiField(_("agent id"), max_length=NODE_ID_MAX)
    connection_id = AsciiField(_("connection id"), max_length=63, unique=True)
    server_node = models.ForeignKey(
        ServerNode,
        on_delete=models.PROTECT,
        db_index=False,
        related_name="connections",
        verbose_name=_("server node"),
    )
    node_epoch = models.BigIntegerField(_("node epoch"))
    generation = models.BigIntegerField(_("generation"))
    active_streams = models.IntegerField(_("active streams"), default=0)
    health_score = models.SmallIntegerField(_("health"), default=100)
    opened_at = models.DateTimeField(_("opened at"))
    updated_at = models.DateTimeField(_("updated at"))
    closed_at = models.DateTimeField(_("closed at"), null=True)
    close_reason = AsciiField(_("close reason"), max_length=63, default="")

    class Meta:
        db_table = "agent_connection_leases"
        verbose_name = _("agent connection")
        verbose_name_plural = _("agent connections")
        constraints = (models.UniqueConstraint(fields=["agent_id", "generation"], name="agent_leases_generation"),)
        indexes = (
            models.Index(fields=["agent_id", "closed_at"], name="agent_leases_agent"),
            models.Index(fields=["server_node", "node_epoch", "closed_at"], name="agent_leases_node"),
        )

    def __str__(self) -> str:
        return f"{self.agent_id}#{self.generation}"
