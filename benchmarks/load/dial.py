"""Connections of the load generator: blocking, without Nagle, and never waiting for ever."""

import socket
import struct

STALL_SECONDS = 15.0
_TIMEVAL = struct.Struct("@ll")


class LoadFailed(Exception):
    """A measurement that cannot be counted: bytes were wrong, missing or late."""


def dial(port: int) -> socket.socket:
    """Blocking reads and writes, bounded by the kernel: a Python timeout would cost a poll for each of them."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=STALL_SECONDS)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(int(STALL_SECONDS), 0))
    return sock


def exchange(sock: socket.socket, request: bytes, answer: memoryview) -> None:
    """Sends the request and fills `answer`. Raises LoadFailed at an early end, OSError as the socket does."""
    sock.sendall(request)
    got = 0
    while got < len(answer):
        size = sock.recv_into(answer[got:])
        if not size:
            raise LoadFailed(f"the connection ended after {got} of {len(answer)} bytes of an answer")
        got += size
