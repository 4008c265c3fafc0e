"""A service token: its digest, what it is for and how long; never the secret."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from nodes.models import ServerNode
from tunnelmesh.common.fields import AsciiField
from tunnelmesh.common.softdelete import SoftDelete


class ServiceToken(SoftDelete):
    """`scope` is the text of `tokens.scope`. `legacy_node_id` is schema 7's binding: kept to be listed by the command
    that rebuilds such tokens, read by no decision (F3, F4)."""

    type = AsciiField(_("type"), max_length=31)
    name = models.CharField(_("name"), max_length=191)
    prefix = AsciiField(_("hint"), max_length=15)
    digest = AsciiField(max_length=64, unique=True)
    previous_digest = AsciiField(max_length=64, unique=True, null=True)
    previous_expires_at = models.DateTimeField(_("previous secret valid until"), null=True)
    scope = models.TextField(_("scope"))
    legacy_node_id = AsciiField(max_length=63, null=True, db_column="node_id", editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", verbose_name=_("owner")
    )
    expires_at = models.DateTimeField(_("expires at"), null=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True)
    last_used_at = models.DateTimeField(_("last used at"), null=True)
    created_at = models.DateTimeField(_("created at"))
    updated_at = models.DateTimeField(_("updated at"))

    class Meta(SoftDelete.Meta):
        db_table = "service_tokens"
        verbose_name = _("service token")
        verbose_name_plural = _("service tokens")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class ServiceTokenUse(models.Model):
    """Which node used a shared token, and when last."""

    token = models.ForeignKey(ServiceToken, on_delete=models.PROTECT, db_index=False, related_name="uses")
    server_node = models.ForeignKey(ServerNode, on_delete=models.PROTECT, related_name="+")
    use_count = models.BigIntegerField(_("use count"), default=0)
    last_used_at = models.DateTimeField(_("last used at"))

    class Meta:
        db_table = "service_token_uses"
        constraints = (models.UniqueConstraint(fields=["token", "server_node"], name="service_token_uses_once"),)

    def __str__(self) -> str:
        return f"{self.token_id} {self.server_node_id}"
