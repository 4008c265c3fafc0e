"""The web process as the README starts it: gunicorn on loopback, production settings, a TLS proxy in front."""

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.demo.ports import free_ports
from relay.demo.wait import is_listening, wait_until

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = "from tunnelmesh.settings.production import *\nSTATIC_ROOT = {root!r}\n"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a web process with collected static files in a folder of its own."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "elsewhere.py").write_text(SETTINGS.format(root=str(folder / "static")))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{folder}",
        "DJANGO_SETTINGS_MODULE": "elsewhere",
        "TUNNELMESH_ALLOWED_HOSTS": "console.example",
        "TUNNELMESH_SECRET_KEY": "k3y-" * 20,
        "TUNNELMESH_DATABASE_URL": f"sqlite:///{folder / 'db.sqlite3'}",
    }
    for command in (["collectstatic", "--no-input"], ["migrate"]):
        manage = [sys.executable, str(ROOT / "manage.py"), *command, "-v0"]
        subprocess.run(manage, env=environment, check=True, timeout=60)
    (port,) = free_ports(1)
    words = ["-m", "gunicorn", "tunnelmesh.wsgi", "--bind", f"127.0.0.1:{port}", "--no-control-socket"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], env=environment, stdout=log, stderr=log)

    def watch() -> None:
        assert process.poll() is None, (folder / "log").read_text()

    try:
        wait_until(lambda: is_listening(port), seconds=30, what="gunicorn", watch=watch)
        yield port
    finally:
        process.terminate()
        assert process.wait(30) == 0


def get(port: int, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers={"Host": "console.example", **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_plain_http_is_sent_to_https(web: int) -> None:
    status, headers, _ = get(web, "/admin/login/")
    assert (status, headers["Location"]) == (301, "https://console.example/admin/login/")


def test_through_the_proxy_the_page_and_its_files_are_served(web: int) -> None:
    secure = {"X-Forwarded-Proto": "https"}
    status, headers, page = get(web, "/admin/login/", **secure)
    assert status == 200
    assert headers["Strict-Transport-Security"] == f"max-age={365 * 24 * 3600}"
    assert all(word in headers["Set-Cookie"] for word in ("Secure", "HttpOnly", "SameSite=Lax"))
    (sheet,) = re.findall(r'href="(/static/admin/css/base\.[0-9a-f]{12}\.css)"', page)
    status, headers, _ = get(web, sheet, **secure)
    assert (status, headers["Cache-Control"]) == (200, "max-age=315360000, public, immutable")


def test_another_host_name_is_refused(web: int) -> None:
    assert get(web, "/admin/login/", **{"Host": "evil.example", "X-Forwarded-Proto": "https"})[0] == 400
