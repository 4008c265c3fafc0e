"""The service behind every tunnel: `python -m benchmarks.target`. Prints {"port": N}; ends when its stdin ends."""

import json
import select
import socket
import sys

from benchmarks.traffic import BUFFER_SIZE, COUNT, HEAD_SIZE, Head, Mode, Pattern

_ACCEPTS_PER_TURN = 64
_READ = select.EPOLLIN
_WRITE = select.EPOLLIN | select.EPOLLOUT


class Connection:
    """One accepted connection. `done` counts the bytes that moved in the direction its mode measures."""

    __slots__ = ("done", "head", "intact", "raw", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.raw = b""
        self.head: Head | None = None
        self.done = 0
        self.intact = 0


class Target:
    """A single-threaded epoll server, cheap enough to leave the two cores to the tunnel."""

    def __init__(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._listener.setblocking(False)
        # Accepted sockets inherit it from their listener.
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poll = select.epoll()
        self._poll.register(self._listener, _READ)
        self._connections: dict[int, Connection] = {}
        self._buffer = bytearray(BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._pattern = Pattern()
        self.port: int = self._listener.getsockname()[1]

    def serve(self, until: int) -> None:
        """Serves until the file descriptor `until` reaches its end or can be read."""
        self._poll.register(until, _READ)
        while True:
            for fd, events in self._poll.poll():
                if fd == until:
                    return
                if fd == self._listener.fileno():
                    self._accept()
                else:
                    self._step(self._connections[fd], events)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, _address = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            self._connections[sock.fileno()] = Connection(sock)
            self._poll.register(sock, _READ)

    def _step(self, connection: Connection, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                self._send(connection)
            if events & ~select.EPOLLOUT and not self._receive(connection):
                self._close(connection)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        del self._connections[connection.sock.fileno()]
        connection.sock.close()

    def _receive(self, connection: Connection) -> bool:
        """Reads once; False at the end of the connection."""
        head = connection.head
        unread = head is not None and head.mode is Mode.UP and not head.verified
        # MSG_TRUNC throws bytes away inside the kernel: nobody looks at them.
        size = connection.sock.recv_into(self._view, BUFFER_SIZE, socket.MSG_TRUNC if unread else 0)
        if size and head is None:
            self._begin(connection, self._view[:size])
        elif size:
            self._count(connection, head, size, self._view[:size])
        return size > 0

    def _begin(self, connection: Connection, data: memoryview) -> None:
        connection.raw += bytes(data)
        if len(connection.raw) < HEAD_SIZE:
            return
        head = connection.head = Head.decode(connection.raw)
        rest, connection.raw = connection.raw[HEAD_SIZE:], b""
        if head.mode is Mode.DOWN:
            self._poll.modify(connection.sock, _WRITE)
        elif rest:
            self._count(connection, head, len(rest), memoryview(rest))

    def _count(self, connection: Connection, head: Head | None, size: int, data: memoryview) -> None:
        if head is None or head.mode is Mode.DOWN:
            raise ValueError("bytes that the mode does not allow")
        if head.mode is Mode.UP:
            self._count_up(connection, head, size, data)
            return
        connection.done += size
        while connection.done >= head.length:
            connection.done -= head.length
            connection.sock.send(self._pattern.at(0, head.length))

    def _count_up(self, connection: Connection, head: Head, size: int, data: memoryview) -> None:
        if not head.verified:
            connection.intact += size
        elif connection.intact == connection.done:
            connection.intact += self._pattern.matching(data, head.start + connection.done)
        connection.done += size
        if connection.done >= head.length:
            connection.sock.send(COUNT.pack(connection.intact))

    def _send(self, connection: Connection) -> None:
        head = connection.head
        if head is None:
            raise ValueError("writable before its head")
        left = head.length - connection.done
        connection.done += self._pattern.send(connection.sock, head.start + connection.done, left)
        if connection.done == head.length:
            self._poll.modify(connection.sock, _READ)


def main() -> None:
    target = Target()
    print(json.dumps({"port": target.port}), flush=True)
    target.serve(until=sys.stdin.fileno())


if __name__ == "__main__":
    main()
