"""Django admin: tokens and refused attempts, to read. A secret is shown once, by what issues it."""

from __future__ import annotations

from django.contrib import admin

from tokens.models import RefusedAttempt, ServiceToken
from tunnelmesh.common.admin import ReadOnlyAdmin


@admin.register(ServiceToken)
class ServiceTokenAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "type", "prefix", "scope", "expires_at", "revoked_at", "deleted_at", "last_used_at")
    list_filter = ("type",)
    search_fields = ("name",)
    exclude = ("digest", "previous_digest")
    ordering = ("-id",)


@admin.register(RefusedAttempt)
class RefusedAttemptAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "door", "check_name", "claimed_id", "source_address", "reason")
    list_filter = ("door", "check_name")
    ordering = ("-id",)
