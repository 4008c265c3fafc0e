"""A chain of nginx stream proxies, mutual TLS 1.3 between them: what C needs for the same encryption work.

Not a reverse tunnel: every nginx dials forward. One leg is two of them, two legs are three.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.processes import running
from benchmarks.scenarios.scenario import Scenario, Tunnel, needed, program
from benchmarks.waiting import wait_for_port
from relay.demo.pki import Authority
from relay.demo.ports import LOOPBACK, free_ports

_NAME = "benchmark"

_CONFIG = """\
{module}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; }}
stream {{
    server {{
        listen {loopback}:{listen}{listen_tls} backlog=4096;
        proxy_pass {loopback}:{forward};
{tls}    }}
}}
"""
_DECRYPT = """\
        ssl_protocols TLSv1.3;
        ssl_certificate {pki}/benchmark.pem;
        ssl_certificate_key {pki}/benchmark.key;
        ssl_client_certificate {pki}/ca.pem;
        ssl_verify_client on;
"""
_ENCRYPT = """\
        proxy_ssl on;
        proxy_ssl_protocols TLSv1.3;
        proxy_ssl_certificate {pki}/benchmark.pem;
        proxy_ssl_certificate_key {pki}/benchmark.key;
        proxy_ssl_trusted_certificate {pki}/ca.pem;
        proxy_ssl_name benchmark;
        proxy_ssl_verify on;
"""


def _build() -> str:
    """What `nginx -V` says about how it was built."""
    if not (nginx := program("nginx")):
        return ""
    answer = subprocess.run([nginx, "-V"], capture_output=True, text=True, timeout=10, check=False)
    return answer.stderr


def _module() -> Path | None:
    """The file of the stream module, when this nginx loads it from one."""
    found = re.search(r"--modules-path=(\S+)", _build())
    return Path(found[1], "ngx_stream_module.so") if found else None


def _built_in() -> bool:
    return re.search(r"--with-stream(\s|$)", _build()) is not None


def _without_stream() -> bool:
    module = _module()
    return not _built_in() and not (module and module.exists())


def _write_pki(folder: Path) -> None:
    authority = Authority.new("benchmark CA")
    (folder / "ca.pem").write_bytes(authority.pair.cert_pem)
    authority.issue(_NAME, dns=(_NAME,), ips=(LOOPBACK,)).write(folder, _NAME)


def _config(folder: Path, pki: Path, *, listen: int, forward: int, first: bool, last: bool) -> str:
    """One nginx of the chain: the first does not decrypt, the last does not encrypt."""
    tls = ("" if first else _DECRYPT.format(pki=pki)) + ("" if last else _ENCRYPT.format(pki=pki))
    return _CONFIG.format(
        module="" if _built_in() else f"load_module {_module()};",
        folder=folder,
        loopback=LOOPBACK,
        listen=listen,
        listen_tls="" if first else " ssl",
        forward=forward,
        tls=tls,
    )


@contextmanager
def _chain(target: int, folder: Path, *, legs: int) -> Iterator[Tunnel]:
    _write_pki(folder)
    ports = [*free_ports(legs + 1), target]
    pids: dict[str, int] = {}
    with ExitStack() as stack:
        for index in reversed(range(legs + 1)):
            name, home = f"nginx {index + 1}", folder / f"nginx-{index + 1}"
            home.mkdir()
            config, log = home / "nginx.conf", home / "nginx.log"
            config.write_text(
                _config(
                    home, folder, listen=ports[index], forward=ports[index + 1], first=not index, last=index == legs
                )
            )
            argv = [needed("nginx"), "-p", str(home), "-e", "stderr", "-c", str(config)]
            pids[name] = stack.enter_context(running(argv, log=log)).pid
            wait_for_port(ports[index], log=log)
        yield Tunnel(port=ports[0], pids=dict(sorted(pids.items())))


_INSTALL = "apt-get install nginx libnginx-mod-stream"
SCENARIOS = (
    Scenario("nginx-1", "nginx, 1 leg", 1, partial(_chain, legs=1), ("nginx",), _INSTALL, _without_stream),
    Scenario("nginx-2", "nginx, 2 legs", 2, partial(_chain, legs=2), ("nginx",), _INSTALL, _without_stream),
)
