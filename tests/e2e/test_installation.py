"""The README's installation (F18), run as it stands there; then a node, an agent, and bytes through both."""

import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from relay.demo.ports import free_ports
from relay.demo.wait import http_status, wait_until

ROOT = Path(__file__).resolve().parents[2]
ANSWER = b"from the cellar\n"
PORTS = ("7443", "9443", "8080", "8081")


class Cellar(http.server.BaseHTTPRequestHandler):
    """The private service."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


class Host:
    """What the README calls a host: its /etc/tunnelmesh is a folder of the test, its ports are free ones."""

    def __init__(self, folder: Path) -> None:
        self.etc = folder / "etc" / "tunnelmesh"
        *ports, admin = free_ports(len(PORTS) + 1)
        self.ports = dict(zip(PORTS, ports, strict=True))
        self.replacements = {
            "/etc/tunnelmesh": str(self.etc),
            "/var/lib/tunnelmesh": str(folder / "lib"),
            "node-a.example.org": "localhost",
            **{port: str(free) for port, free in self.ports.items()},
        }
        self.environment = {
            "PATH": os.environ["PATH"],
            "TUNNELMESH_CONFIG": str(self.etc / "server.yaml"),
            "TUNNELMESH_DATABASE_URL": f"sqlite:///{folder / 'lib' / 'tunnelmesh.sqlite3'}",
            "TUNNELMESH_SERVER_ADMIN_LISTEN": f"127.0.0.1:{admin}",
        }

    def blocks(self) -> str:
        """The README's shell blocks under "Installing a node", for this host."""
        section = (ROOT / "README.md").read_text().partition("\n## Installing a node\n")[2].partition("\n## ")[0]
        script = "".join(re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
        for name, here in self.replacements.items():
            assert name in script
            script = script.replace(name, here)
        return script

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        tunnelmesh = f'tunnelmesh() {{ {sys.executable} {ROOT / "manage.py"} "$@"; }}'
        command = ["bash", "-euc", f"{tunnelmesh}\n{script}"]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=120)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A daemon, which must end by itself, with 0, when it is asked to."""
        with (self.etc / f"{arguments[0]}.log").open("wb") as log:
            command = [sys.executable, str(ROOT / "manage.py"), *arguments]
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        try:
            yield process
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    with http.server.HTTPServer(("127.0.0.1", host.ports["8080"]), Cellar) as service:
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        yield host
        service.shutdown()
        thread.join()


def test_installation_of_the_readme(host: Host) -> None:
    installed = host.run(host.blocks())
    assert installed.returncode == 0, installed.stdout + installed.stderr
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(host.running("run_relay")),
            stack.enter_context(host.running("run_agent", "--config", str(host.etc / "agent.yaml"))),
        ]

        def watch() -> None:
            assert [process.poll() for process in daemons] == [None, None]

        entry = host.ports["8081"]
        wait_until(lambda: http_status(entry, "/") == 200, seconds=60, what="an answer through the tunnel", watch=watch)
        with urlopen(f"http://127.0.0.1:{entry}/") as answer:
            assert answer.read() == ANSWER
