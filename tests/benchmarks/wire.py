"""A TCP proxy that may change what it carries."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from benchmarks.traffic import HEAD_SIZE

PIECE = 4096
Change = Callable[[bytes], bytes]


@contextmanager
def wire(target: int, change: Change) -> Iterator[int]:
    """Yields the port of a proxy to `target` whose bytes, both ways, go through `change`; the head does not."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_serve, args=(listener, target, change))
        server.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join(10)


def _serve(listener: socket.socket, target: int, change: Change) -> None:
    threads = []
    with suppress(OSError):
        while True:
            user, _ = listener.accept()
            threads.append(threading.Thread(target=_carry, args=(user, target, change)))
            threads[-1].start()
    for thread in threads:
        thread.join(10)


def _carry(user: socket.socket, target: int, change: Change) -> None:
    with user, socket.create_connection(("127.0.0.1", target)) as service:
        service.sendall(user.recv(HEAD_SIZE, socket.MSG_WAITALL))
        back = threading.Thread(target=_copy, args=(service, user, change))
        back.start()
        _copy(user, service, change)
        back.join(10)


def _copy(source: socket.socket, sink: socket.socket, change: Change) -> None:
    with suppress(OSError):
        while data := source.recv(PIECE):
            sink.sendall(change(data))
    for sock in (source, sink):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def spoil(data: bytes) -> bytes:
    """Changes one byte of every full piece: bulk suffers, small requests do not."""
    return bytes([data[0] ^ 1]) + data[1:] if len(data) == PIECE else data
