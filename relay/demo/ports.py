"""Free TCP ports on 127.0.0.1 for processes that must know each other's before any of them listens."""

import random
import socket

# Below the range from which Linux takes the source ports of outgoing connections (32768 and up): no dial takes a port
# that is free now before its owner listens, nor while its owner is down for a restart.
_CANDIDATES = range(20_000, 32_000)
LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports nobody listens on; raises OSError when there are not that many."""
    found: list[int] = []
    for port in random.sample(_CANDIDATES, len(_CANDIDATES)):
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise OSError(f"fewer than {count} free ports on {LOOPBACK} between {_CANDIDATES.start} and {_CANDIDATES.stop - 1}")


def is_free(port: int) -> bool:
    """Tell whether a listener could bind ``port`` now (connections in TIME_WAIT do not count)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
