"""The entry of the web process: `gunicorn tunnelmesh.wsgi`."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tunnelmesh.settings.production")

# Commands run without a secret key (the relay signs nothing), so the settings allow an empty one; reading it here makes
# Django raise ImproperlyConfigured before the web process serves anything.
_ = settings.SECRET_KEY
application = get_wsgi_application()
