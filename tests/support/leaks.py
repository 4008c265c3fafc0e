"""What a process holds, and what a mesh has left behind."""

from pathlib import Path

from relay.demo.folder import Folder
from relay.demo.ports import is_free
from relay.demo.topology import Topology
from tunnelmesh.common.errors import Conflict


def sockets_of(pid: int) -> int:
    """How many sockets the process has open."""
    links = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links += str(descriptor.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue  # closed meanwhile
    return links


def holds_at_most(pid: int, sockets: int) -> bool:
    """Whether the process has no more than that many sockets open."""
    return sockets_of(pid) <= sockets


def left_by(mesh: Topology) -> list[str]:
    """What a closed mesh still occupies; a clean one gives an empty list.

    Every process that it ever started inherited the lock of its folder, so a free lock means that all have ended.
    """
    layout = mesh.layout
    ports = {f"entry {name}": port for name, port in layout.entries.items()}
    for node, own in layout.nodes.items():
        ports |= {f"{node} relay": own.relay, f"{node} agents": own.agents, f"{node} admin": own.admin}
    ports |= {"service": layout.service, "console": layout.console}
    left = [f"{name} was not reaped" for name, pid in mesh.pids.items() if pid]
    try:
        Folder(mesh.folder.path).close()
    except Conflict as conflict:
        left.append(str(conflict))
    left += [f"port of {name} is taken" for name, port in ports.items() if not is_free(port)]
    left += [str(path) for path in mesh.folder.path.rglob("*.new")]
    return left
