"""What every environment has in common, and the way from server.yaml to Django's DATABASES."""

import os
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_lazy as _

from tunnelmesh.common.errors import DomainError, NotFound
from tunnelmesh.conf.load import Loaded, load_server_config
from tunnelmesh.conf.options import SERVER_FILE, VARIABLE
from tunnelmesh.conf.schema import ServerConfig
from tunnelmesh.db.url import database_settings

BASE_DIR = Path(__file__).resolve().parents[2]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "tunnelmesh.audit",
    "nodes",
    "tokens",
    "relay",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "tunnelmesh.urls"
WSGI_APPLICATION = "tunnelmesh.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# No ATOMIC_REQUESTS: a service opens its own transaction, so that reads and writes of one decision share it.
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "tunnelmesh" / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"


# Set when server.yaml cannot be used; `relay.checks` reports it.
CONFIGURATION_ERROR: DomainError | None = None


def configured_databases() -> tuple[dict[str, Any], DomainError | None]:
    """DATABASES as server.yaml or the environment name it, or no database and the reason.

    A bad file must not end Django's start: `check_config` is to explain it, and `run_agent` has a file of its own.
    """
    try:
        return {"default": database_settings(_server_config().value.database.url)}, None
    except DomainError as error:
        return {}, error


def _server_config() -> Loaded[ServerConfig]:
    named = os.environ.get(VARIABLE)
    try:
        return load_server_config(Path(named or SERVER_FILE))
    except NotFound:
        if named:
            raise
        return load_server_config(None)
