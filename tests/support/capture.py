"""A packet capture of the loopback interface, and the TCP streams in it. Needs root (CAP_NET_RAW)."""

import ctypes
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from relay.demo.wait import wait_until

ETH_P_IP = 0x0800
SO_RCVBUFFORCE = 33
SO_ATTACH_FILTER = 26
BUFFER = 64 * 1024 * 1024
ETHERNET = 14
FIN_OR_RST = 0x05


class Capture:
    """All TCP over 127.0.0.1 from or to ``ports`` while the context is open. The kernel drops the rest, which may be
    far more than a thread of Python can read."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        _attach(self._socket, _filter(sorted(ports)))
        self._socket.bind(("lo", ETH_P_IP))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        self._socket.settimeout(0.1)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._segments: dict[tuple[int, int], dict[int, bytes]] = defaultdict(dict)
        self._first: dict[tuple[int, int], int] = {}
        self.seen_end_of: set[int] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def wait_for_end_of(self, port: int, *, seconds: float) -> None:
        """Return once the capture has seen a connection to ``port`` end; everything sent before is then in it."""
        wait_until(lambda: port in self.seen_end_of, seconds=seconds, what=f"end at {port}", watch=lambda: None)

    def streams(self, port: int) -> list[bytes]:
        """What each direction of each connection to ``port`` carried, in order, as far as its start was captured."""
        return [
            _joined(self._segments[flow], self._first[flow])
            for flow in sorted(self._first)
            if port in flow and self._segments[flow]
        ]

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                frame, address = self._socket.recvfrom(65536 + 256)
            except TimeoutError:
                continue
            if address[2] != socket.PACKET_OUTGOING:  # loopback shows each packet twice
                self._note(frame[ETHERNET:])

    def _note(self, packet: bytes) -> None:
        if packet[9] != socket.IPPROTO_TCP:
            return
        header = (packet[0] & 0x0F) * 4
        tcp = packet[header : int.from_bytes(packet[2:4])]
        source, target = int.from_bytes(tcp[0:2]), int.from_bytes(tcp[2:4])
        sequence, flags = int.from_bytes(tcp[4:8]), tcp[13]
        if flags & 0x02:
            self._first[source, target] = sequence + 1
        if payload := tcp[(tcp[12] >> 4) * 4 :]:
            self._segments[source, target][sequence] = payload
        if flags & FIN_OR_RST:
            self.seen_end_of |= {source, target}


def _filter(ports: list[int]) -> list[tuple[int, int, int, int]]:
    """Classic BPF (Linux, Documentation/networking/filter): TCP from or to one of ``ports``."""
    load_protocol, load_header_length = (0x30, 0, 0, ETHERNET + 9), (0xB1, 0, 0, ETHERNET)
    tests = [
        (0x48, ETHERNET),
        *((0x15, port) for port in ports),
        (0x48, ETHERNET + 2),
        *((0x15, port) for port in ports),
    ]
    body = []
    for position, (code, value) in enumerate(tests):
        accept = len(tests) - position  # over the rest of the tests and the instruction that drops
        body.append((code, accept if code == 0x15 else 0, 0, value))
    not_tcp = 1 + len(body)
    drop, keep = (0x06, 0, 0, 0), (0x06, 0, 0, 0x40000)
    return [load_protocol, (0x15, 0, not_tcp, socket.IPPROTO_TCP), load_header_length, *body, drop, keep]


def _attach(sock: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(program), ctypes.addressof(code)))


def _joined(segments: dict[int, bytes], first: int) -> bytes:
    """The bytes from sequence number ``first`` on; raises ValueError where the capture has a hole."""
    joined = bytearray()
    for sequence in sorted(segments, key=lambda number: (number - first) % 2**32):
        offset = (sequence - first) % 2**32
        if offset > len(joined):
            raise ValueError(f"the capture lost {offset - len(joined)} bytes at {len(joined)}")
        joined[offset : offset + len(segments[sequence])] = segments[sequence]
    return bytes(joined)


def tls_records(stream: bytes) -> list[int]:
    """The content types of the TLS records that ``stream`` consists of; raises ValueError for anything else.

    RFC 8446, section 5.1: type, legacy version 3.1 or 3.3, a length of at most 2^14 + 256.
    """
    types, position = [], 0
    while position + 5 <= len(stream):
        kind, version = stream[position], stream[position + 1 : position + 3]
        length = int.from_bytes(stream[position + 3 : position + 5])
        if not 20 <= kind <= 23 or version not in (b"\x03\x01", b"\x03\x03") or length > 2**14 + 256:
            raise ValueError(f"no TLS record at byte {position}: {stream[position : position + 16]!r}")
        types.append(kind)
        position += 5 + length
    return types
