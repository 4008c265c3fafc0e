"""OpenSSH with a server of its own on loopback: `-R` alone (one leg), and `-L` into `-R` (two legs, like two nodes)."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.processes import running
from benchmarks.scenarios.scenario import Scenario, Tunnel, needed
from benchmarks.waiting import wait_for_port
from relay.demo.ports import LOOPBACK, free_ports

# The cipher that TLS 1.3 chooses in the other scenarios too.
_CIPHER = "aes256-gcm@openssh.com"

_SERVER = """\
ListenAddress {listen}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding yes
Ciphers {cipher}
LogLevel ERROR
"""


class Server:
    """Our own sshd: keys and configuration in a folder of its own, nothing of the machine's."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    @contextmanager
    def running(self) -> Iterator[int]:
        """Yields the server's process id once it answers."""
        for key in ("host", "user"):
            argv = [needed("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key)]
            subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
        public = (self.folder / "host.pub").read_text()
        (self.folder / "known_hosts").write_text(f"[{LOOPBACK}]:{self.port} {public}")
        config = self.folder / "sshd_config"
        listen = f"{LOOPBACK}:{self.port}"
        config.write_text(_SERVER.format(listen=listen, folder=self.folder, cipher=_CIPHER))
        with _separation_folder(), running([needed("sshd"), "-D", "-e", "-f", config], log=self._log("sshd")) as sshd:
            wait_for_port(self.port, log=self._log("sshd"))
            yield sshd.pid

    @contextmanager
    def client(self, flag: str, forward: str, *, answers_on: int) -> Iterator[int]:
        """An ssh client with one forwarding; yields its process id once the forwarding answers."""
        options = {
            "UserKnownHostsFile": self.folder / "known_hosts",
            "IdentityFile": self.folder / "user",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ExitOnForwardFailure": "yes",
            "Ciphers": _CIPHER,
            "Port": self.port,
        }
        argv: list[str | Path] = [needed("ssh"), "-F", "none", "-N", "-T", flag, forward]
        for name, value in options.items():
            argv += ["-o", f"{name}={value}"]
        with running([*argv, LOOPBACK], log=self._log(f"ssh{flag}")) as ssh:
            wait_for_port(answers_on, log=self._log(f"ssh{flag}"))
            yield ssh.pid

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@contextmanager
def _separation_folder() -> Iterator[None]:
    """The empty folder that sshd wants when root starts it, and that Debian's unit makes."""
    folder = Path("/run/sshd")
    made = os.getuid() == 0 and not folder.exists()
    if made:
        folder.mkdir(mode=0o755)
    try:
        yield
    finally:
        if made:
            folder.rmdir()


@contextmanager
def _remote(target: int, folder: Path) -> Iterator[Tunnel]:
    port, entry = free_ports(2)
    server = Server(folder, port)
    with ExitStack() as stack:
        sshd = stack.enter_context(server.running())
        agent = stack.enter_context(server.client("-R", f"{LOOPBACK}:{entry}:{LOOPBACK}:{target}", answers_on=entry))
        yield Tunnel(port=entry, pids={"sshd": sshd, "ssh -R": agent})


@contextmanager
def _local_and_remote(target: int, folder: Path) -> Iterator[Tunnel]:
    port, inner, entry = free_ports(3)
    server = Server(folder, port)
    with ExitStack() as stack:
        sshd = stack.enter_context(server.running())
        agent = stack.enter_context(server.client("-R", f"{LOOPBACK}:{inner}:{LOOPBACK}:{target}", answers_on=inner))
        user = stack.enter_context(server.client("-L", f"{LOOPBACK}:{entry}:{LOOPBACK}:{inner}", answers_on=entry))
        yield Tunnel(port=entry, pids={"ssh -L": user, "sshd": sshd, "ssh -R": agent})


_PROGRAMS = ("sshd", "ssh", "ssh-keygen")
_INSTALL = "apt-get install openssh-server"
SCENARIOS = (
    Scenario("openssh-R", "OpenSSH -R", 1, _remote, _PROGRAMS, _INSTALL),
    Scenario("openssh-LR", "OpenSSH -L + -R", 2, _local_and_remote, _PROGRAMS, _INSTALL),
)
