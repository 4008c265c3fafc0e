"""Django admin: services and routes. Every change goes through `relay.services.publishing` (R31)."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from relay.models import Route, Service
from relay.services import publishing
from tunnelmesh.common.errors import DomainError


def actor_of(request: HttpRequest) -> str:
    return f"user:{request.user.pk}"


class PublishingForm(forms.ModelForm):
    """Asks the service whether the values would do, so that its answer stands beside the form."""

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own hook, after which `instance` has the values
        if not self.errors:
            try:
                publishing.check(self.instance)
            except DomainError as error:
                self.add_error(None, "; ".join(str(error).splitlines()))


class PublishingAdmin(admin.ModelAdmin):
    """Withdraws and restores by action; there is no deletion."""

    form = PublishingForm
    actions = ("withdraw", "restore")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    @admin.action(description=_("Withdraw: close the entries, keep the name"), permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            publishing.withdraw(row, actor=actor_of(request))

    @admin.action(description=_("Restore what was withdrawn"), permissions=["change"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            try:
                publishing.restore(row, actor=actor_of(request))
            except DomainError as error:
                self.message_user(request, f"{row}: {error}", messages.ERROR)


@admin.register(Service)
class ServiceAdmin(PublishingAdmin):
    list_display = ("name", "agent_id", "protocol", "host", "port", "enabled", "deleted_at")
    search_fields = ("name", "agent_id")
    fields = ("name", "agent_id", "host", "port", "enabled")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:  # noqa: ARG002
        return ("name",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Service, form: Any, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in form.changed_data} if change else form.cleaned_data
        if change:
            publishing.service_change(Service.objects.get(pk=obj.pk), actor=actor_of(request), **values)
        else:
            obj.pk = publishing.service_publish(actor=actor_of(request), **values).pk


@admin.register(Route)
class RouteAdmin(PublishingAdmin):
    list_display = ("id", "service", "kind", "server_node", "host", "port", "enabled", "deleted_at")
    list_select_related = ("service", "server_node")
    fields = ("service", "server_node", "host", "port", "enabled")

    def save_model(self, request: HttpRequest, obj: Route, form: Any, change: bool) -> None:
        names = {"service": "service_id", "server_node": "server_node_id"}
        if change:
            values = {name: getattr(obj, name) for name in (names.get(field, field) for field in form.changed_data)}
            publishing.route_change(Route.objects.get(pk=obj.pk), actor=actor_of(request), **values)
            return
        obj.pk = publishing.route_open(
            obj.service,
            host=obj.host,
            port=obj.port or 0,
            server_node_id=obj.server_node_id,
            enabled=obj.enabled,
            actor=actor_of(request),
        ).pk
