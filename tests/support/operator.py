"""The operator's command line: `manage.py` as a process of its own, under the production settings."""

import os
import subprocess

from relay.demo.commands import MANAGE, PRODUCTION

SECONDS = 60.0


def manage(*words: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, in bounded time."""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": PRODUCTION}
    return subprocess.run([*MANAGE, *words], check=False, capture_output=True, text=True, timeout=SECONDS, env=env)
