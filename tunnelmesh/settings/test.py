"""For pytest: a database file of its own for each process, cheap passwords, no configuration from outside."""

import os
import tempfile
from pathlib import Path

from tunnelmesh.db.url import sqlite_settings

from .base import *

SECRET_KEY = "for-tests-only"
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
WHITENOISE_AUTOREFRESH = True

# A file, not SQLite's memory: threads and processes then meet the locks that they meet in production.
DATABASES = {"default": sqlite_settings(str(Path(tempfile.gettempdir()) / f"tunnelmesh-test-{os.getpid()}.sqlite3"))}
DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"]}
