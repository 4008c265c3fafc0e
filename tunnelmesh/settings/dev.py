"""For work on a checkout: debug pages, and a database beside the code unless TUNNELMESH_CONFIG names a server.yaml."""

import os

from tunnelmesh.conf.options import VARIABLE
from tunnelmesh.db.url import sqlite_settings

from .base import *

DEBUG = True
SECRET_KEY = "development-only-and-published-so-never-a-secret"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

if os.environ.get(VARIABLE):
    DATABASES, CONFIGURATION_ERROR = configured_databases()
else:
    DATABASES = {"default": sqlite_settings(str(BASE_DIR / ".dev" / "db.sqlite3"))}
