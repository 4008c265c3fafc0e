"""For real installations, and the default of every command: hardened, and without a single built-in secret."""

import os
from pathlib import Path

from .base import *


def _secret_key() -> str:
    """The web process's signing key, by reference: TUNNELMESH_SECRET_KEY_FILE (preferred) or TUNNELMESH_SECRET_KEY.

    Empty when neither is set: the relay and the commands sign nothing, and `wsgi.py` refuses to start without a key.
    """
    path = os.environ.get("TUNNELMESH_SECRET_KEY_FILE")
    return Path(path).read_text(encoding="ascii").strip() if path else os.environ.get("TUNNELMESH_SECRET_KEY", "")


DEBUG = False
SECRET_KEY = _secret_key()
DATABASES, CONFIGURATION_ERROR = configured_databases()

ALLOWED_HOSTS = [host for host in os.environ.get("TUNNELMESH_ALLOWED_HOSTS", "").split(",") if host]

SECURE_SSL_REDIRECT = True
SECURE_HSTS_SECONDS = 365 * 24 * 3600
# Neither including subdomains nor preloading: the other hosts of the domain are not ours to decide about.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = True
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = True
CSRF_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# The daemons' commands set up their own logging from the configuration; this is what the web process and the rest use.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"redact": {"()": "tunnelmesh.common.secrets.RedactingFilter"}},
    "formatters": {"json": {"()": "tunnelmesh.common.logging.JsonFormatter"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "filters": ["redact"], "formatter": "json"},
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {"django": {"handlers": [], "level": "INFO", "propagate": True}},
}
