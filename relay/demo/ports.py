"""Free TCP ports on 127.0.0.1 for processes that must know each other's before any of them listens."""

import random
import socket

# Below the range from which Linux takes the source ports of outgoing connections (32768 and up): no dial takes a port
# that is free now before its owner listens, nor while its owner is down for a restart.
_CANDIDATES = range(20_000, 32_000)
LOOPBACK = "127.0.0.1"


class Reservation:
    """Ports that no other reservation of this machine gets, while those who were told may listen on them."""

    def __init__(self, count: int) -> None:
        """Reserve ``count`` ports; raises OSError when there are not that many."""
        self._held: list[socket.socket] = []
        for port in random.sample(_CANDIDATES, len(_CANDIDATES)):
            if len(self._held) == count:
                return
            if held := _bound(port, shared=False):
                # Two sockets that both allow reuse may be bound to one port as long as one of them listens at most.
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self._held.append(held)
        self.release()
        raise OSError(f"fewer than {count} free ports on {LOOPBACK} from {_CANDIDATES.start} to {_CANDIDATES.stop - 1}")

    @property
    def ports(self) -> list[int]:
        """The reserved ports."""
        return [held.getsockname()[1] for held in self._held]

    def release(self) -> None:
        """Give them to whoever comes."""
        for held in self._held:
            held.close()


def free_ports(count: int) -> list[int]:
    """``count`` different ports that nobody uses now; somebody else may be told the same ones."""
    reservation = Reservation(count)
    ports = reservation.ports
    reservation.release()
    return ports


def is_free(port: int) -> bool:
    """Tell whether a listener could have ``port`` now (connections in TIME_WAIT do not count)."""
    if probe := _bound(port, shared=True):
        probe.close()
    return probe is not None


def _bound(port: int, *, shared: bool) -> socket.socket | None:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shared)
    try:
        sock.bind((LOOPBACK, port))
    except OSError:
        sock.close()
        return None
    return sock
