"""Django admin: nodes and agent connections, to read. Nodes register themselves."""

from __future__ import annotations

from django.contrib import admin

from nodes.models import AgentConnection, ServerNode
from tunnelmesh.common.admin import ReadOnlyAdmin


@admin.register(ServerNode)
class ServerNodeAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "enabled", "deleted_at", "address", "epoch", "version", "certificate_not_after")
    list_filter = ("enabled", "version")
    search_fields = ("id", "name")
    ordering = ("id",)


@admin.register(AgentConnection)
class AgentConnectionAdmin(ReadOnlyAdmin):
    list_display = ("agent_id", "server_node", "generation", "active_streams", "opened_at", "closed_at", "close_reason")
    list_select_related = ("server_node",)
    search_fields = ("agent_id", "server_node__id")
    ordering = ("-id",)
