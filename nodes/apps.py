"""Django's registration of the app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class NodesConfig(AppConfig):
    name = "nodes"
    verbose_name = _("server nodes")
