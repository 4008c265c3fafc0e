"""What a process holds, and what a mesh has left behind."""

from pathlib import Path

from relay.demo.ports import is_free
from relay.demo.topology import Topology


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


def children() -> set[int]:
    """The process ids of this process's children, zombies included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found.update(map(int, (task / "children").read_text().split()))
    return found


def left_by(mesh: Topology) -> list[str]:
    """What a closed mesh still occupies; a clean one gives an empty list."""
    layout = mesh.layout
    ports = {f"entry {name}": port for name, port in layout.entries.items()}
    for node, own in layout.nodes.items():
        ports |= {f"{node} relay": own.relay, f"{node} agents": own.agents, f"{node} admin": own.admin}
    ports |= {"service": layout.service, "console": layout.console}
    left = [f"{name} runs" for name, pid in mesh.pids.items() if pid]
    left += [f"port of {name} is taken" for name, port in ports.items() if not is_free(port)]
    left += [str(path) for path in mesh.folder.path.rglob("*.new")]
    return left
