"""Django's registration of the app."""

from django.apps import AppConfig
from django.core import checks
from django.utils.translation import gettext_lazy as _

from relay.checks import configuration_is_usable


class RelayConfig(AppConfig):
    name = "relay"
    verbose_name = _("data plane")

    def ready(self) -> None:
        checks.register(configuration_is_usable)
