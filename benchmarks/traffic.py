"""What a benchmark connection carries: a 16-byte head, then a pattern that shows any loss, shift or mix-up of bytes."""

import enum
import os
import random
import socket
import struct
from dataclasses import dataclass

_HEAD = struct.Struct("<4sBBHQ")
_MAGIC = b"TMB1"
HEAD_SIZE = _HEAD.size

# Prime, so that no buffer, frame or window size is a multiple of it: a block that arrives shifted never matches.
_PERIOD = 65_521
# Streams begin this far apart in the pattern, so that bytes of one stream never pass for those of another.
_STEP = 4_099
_RUN = 16 * _PERIOD

BUFFER_SIZE = 256 * 1024


class Mode(enum.IntEnum):
    """What the target does after the head. None needs a half-close, so tunnels without one can be measured too."""

    UP = 1  # reads `length` bytes, then answers with how many of them were right (`COUNT`)
    DOWN = 2  # sends `length` bytes
    ECHO = 3  # answers every `length` bytes with as many


COUNT = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Head:
    """The first bytes of every connection, from the generator to the target."""

    mode: Mode
    length: int
    stream: int = 0
    verified: bool = False

    def encode(self) -> bytes:
        return _HEAD.pack(_MAGIC, self.mode, self.verified, self.stream, self.length)

    @classmethod
    def decode(cls, raw: bytes | bytearray | memoryview) -> "Head":
        """Raises ValueError for anything that `encode` does not write."""
        magic, mode, verified, stream, length = _HEAD.unpack_from(raw)
        if magic != _MAGIC or length < 1:
            raise ValueError("not the head of a benchmark connection")
        return cls(Mode(mode), length, stream, bool(verified))

    @property
    def start(self) -> int:
        """Where in the pattern this stream begins."""
        return self.stream * _STEP % _PERIOD


class Pattern:
    """The bytes themselves, kept in memory that the kernel sends without a copy (memfd and sendfile)."""

    def __init__(self) -> None:
        self._bytes = random.Random(_PERIOD).randbytes(_PERIOD) * (_RUN // _PERIOD + 1)
        self._memory = os.memfd_create("benchmark-pattern")
        os.write(self._memory, self._bytes)

    def at(self, position: int, length: int) -> bytes:
        """At most `_RUN` bytes of the endless pattern."""
        offset = position % _PERIOD
        return self._bytes[offset : offset + length]

    def send(self, sock: socket.socket, position: int, length: int) -> int:
        """Sends up to `length` bytes of the pattern; returns how many went. Raises what the socket raises."""
        return os.sendfile(sock.fileno(), self._memory, position % _PERIOD, min(length, _RUN))

    def matching(self, data: bytes | bytearray | memoryview, position: int) -> int:
        """How many leading bytes of `data` (at most `_RUN`) are the pattern from `position` on."""
        expected = self.at(position, len(data))
        actual = bytes(data)
        if actual == expected:
            return len(actual)
        return next(index for index, pair in enumerate(zip(actual, expected, strict=True)) if pair[0] != pair[1])
