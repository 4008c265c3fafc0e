"""Django's registration of the app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AuditConfig(AppConfig):
    name = "tunnelmesh.audit"
    label = "audit"
    verbose_name = _("audit")
