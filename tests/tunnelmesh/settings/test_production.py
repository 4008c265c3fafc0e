"""The production settings hold no secret, refuse to serve without one, and pass Django's own deployment check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client, override_settings

from relay.checks import configuration_is_usable
from tunnelmesh.common.errors import Invalid

ROOT = Path(__file__).resolve().parents[3]
KEY = "k3y-" * 20


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment |= {"DJANGO_SETTINGS_MODULE": "tunnelmesh.settings.production", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_web_process_refuses_to_start_without_a_key() -> None:
    refused = run("import tunnelmesh.wsgi")
    assert refused.returncode == 1
    assert "The SECRET_KEY setting must not be empty" in refused.stderr


def test_key_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    shown = run(
        "from django.conf import settings; print(settings.SECRET_KEY)", TUNNELMESH_SECRET_KEY_FILE=str(tmp_path / "key")
    )
    assert shown.stdout == f"{KEY}\n"


def test_deployment_check_is_clean(tmp_path: Path) -> None:
    checked = run(
        "from tunnelmesh.cli import main; main(['manage.py', 'check', '--deploy', '--fail-level=WARNING'])",
        TUNNELMESH_SECRET_KEY=KEY + "0123456789abcdef",
        TUNNELMESH_ALLOWED_HOSTS="console.example",
        TUNNELMESH_DATABASE_URL=f"sqlite:///{tmp_path}/db.sqlite3",
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_errors_are_logged_with_secrets_masked() -> None:
    token = "tmn_" + "A" * 49
    logged = run(
        f"import django, logging; django.setup();logging.getLogger('django.request').error('with {token}')",
    )
    assert '"message"' in logged.stderr
    assert token not in logged.stderr


@pytest.mark.parametrize("error", [None, Invalid("bad_config", "line 2 is wrong", hint="mend it")])
def test_check_reports_an_unusable_configuration(error: Invalid | None) -> None:
    with override_settings(CONFIGURATION_ERROR=error):
        messages = [(found.msg, found.hint, found.id) for found in configuration_is_usable()]
    assert messages == ([("line 2 is wrong", "mend it", "relay.E001")] if error else [])


def test_login_page_is_translated(client: Client) -> None:
    page = client.get("/admin/login/", headers={"accept-language": "zh-CN"})
    assert (page.status_code, page.headers["Content-Language"]) == (200, "zh-hans")
