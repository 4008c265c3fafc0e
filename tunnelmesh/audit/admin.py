"""Django admin: the audit log, to read."""

from __future__ import annotations

from django.contrib import admin

from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.admin import ReadOnlyAdmin


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "action", "target", "actor", "source_address")
    list_filter = ("action",)
    search_fields = ("target", "actor")
    ordering = ("-id",)
