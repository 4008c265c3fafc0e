"""Django system checks of the deployment: facts that no later error would explain as well."""

from django.conf import settings
from django.core.checks import CheckMessage, Error


def configuration_is_usable(**_: object) -> list[CheckMessage]:
    """server.yaml could be read; without it Django has no database."""
    error = settings.CONFIGURATION_ERROR
    return [Error(error.message, hint=error.hint, id="relay.E001")] if error else []
