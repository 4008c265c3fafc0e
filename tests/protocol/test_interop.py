"""Our session against implementations that share no line with it, as client and as server, over loopback TCP.

js-libp2p's yamux always; hashicorp/yamux, the reference, where Go and it are installed: `apt-get install
--no-install-recommends golang-go golang-github-hashicorp-yamux-dev`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from relay.protocol.errors import GoAwayCode
from relay.protocol.limits import INITIAL_WINDOW
from relay.protocol.stream import Stream
from tests.support.wire import End

HERE = Path(__file__).parent / "interop"
CACHE = Path(__file__).parents[2] / ".dev" / "interop"
GO_LIBRARIES = Path("/usr/share/gocode")
PEERS = ["libp2p"]
if shutil.which("go") and (GO_LIBRARIES / "src/github.com/hashicorp/yamux").exists():
    PEERS.append("hashicorp")
SECONDS = 30.0
MEBIBYTE = 1024 * 1024

pytestmark = pytest.mark.node


@pytest.fixture(scope="session")
def libp2p() -> list[str]:
    """js-libp2p's yamux: installed from the lock file, which pins each package by its hash."""
    if not (shutil.which("npm") and shutil.which("node")):
        message = "no Node.js with npm: interoperability was NOT tested; run: ./dev setup node"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    done = CACHE / "installed-lock.json"
    with alone():
        for name in ("package.json", "package-lock.json", "peer.mjs"):
            shutil.copy(HERE / name, CACHE)
        lock = (HERE / "package-lock.json").read_bytes()
        if not done.exists() or done.read_bytes() != lock:
            npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(npm, cwd=CACHE, check=True, timeout=300)
            done.write_bytes(lock)
    return ["node", str(CACHE / "peer.mjs")]


@pytest.fixture(scope="session")
def hashicorp() -> list[str]:
    """hashicorp/yamux, from Debian's golang-github-hashicorp-yamux-dev."""
    build = ["go", "build", "-o", str(CACHE / "peer"), str(HERE / "peer.go")]
    with alone():
        environment = os.environ | {"GO111MODULE": "off", "GOPATH": str(GO_LIBRARIES)}
        subprocess.run(build, env=environment, check=True, timeout=300)
    return [str(CACHE / "peer")]


@contextmanager
def alone() -> Iterator[None]:
    """Several test processes may want to install at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Peer:
    """The foreign process, the socket to it, and our end of the session."""

    def __init__(self, program: list[str], *, client: bool) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(SECONDS)
            side = "server" if client else "client"
            self.process = subprocess.Popen(
                [*program, side, str(listener.getsockname()[1])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.socket = listener.accept()[0]
        self.end = End(client=client, now=time.monotonic())
        self.eof = False
        self.lines: deque[str] = deque()
        self.listener = threading.Thread(target=self._listen)
        self.listener.start()

    def ask(self, name: str, **options: Any) -> None:
        """Give the peer a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"name": name, **options}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Its next line; the session goes on until it comes."""
        self.run(lambda: bool(self.lines))
        return json.loads(self.lines.popleft())

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def run(self, until: Callable[[], bool], *, consume: bool = True) -> None:
        """Carry bytes both ways until something holds."""
        deadline = time.monotonic() + SECONDS
        while not until():
            assert time.monotonic() < deadline, "nothing came of it"
            self.step()
            if consume:
                self.consume()

    def step(self) -> None:
        """Write what there is and read what has come, for at most 10 ms."""
        self.socket.settimeout(SECONDS)
        self.socket.sendall(self.end.take())
        self.socket.settimeout(0.01)
        try:
            data = self.socket.recv(1 << 18)
        except TimeoutError:
            return
        self.eof = self.eof or not data
        self.end.deliver(data, time.monotonic())
        assert self.end.error is None

    def consume(self) -> None:
        """Return credit for all that is held."""
        for stream_id, held in list(self.end.held.items()):
            self.end.consume(self.end.streams[stream_id], held, time.monotonic())

    def settled(self, streams: list[Stream]) -> bool:
        """Whether these streams have ended on both sides."""
        return not any(stream.open for stream in streams)

    def open(self, data: bytes, *, finish: bool = True) -> Stream:
        """A stream of ours that says something."""
        stream = self.end.open(time.monotonic())
        self.end.send(stream, data)
        if finish:
            self.end.finish(stream)
        return stream

    def close(self) -> None:
        """End the process, which exits when its input ends, and read what it had to complain about."""
        assert self.process.stdin is not None
        self.socket.close()
        self.process.stdin.close()
        self.process.wait(SECONDS)
        self.listener.join(SECONDS)
        assert "[ERR]" not in "".join(self.lines)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(params=[(name, side) for name in PEERS for side in ("client", "server")], ids="-".join)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    """We are the client, then the server, of each implementation."""
    name, side = request.param
    found = Peer(request.getfixturevalue(name), client=side == "client")
    yield found
    found.close()


def pattern(number: int, length: int) -> bytes:
    word = f"stream {number}, ".encode()
    return (word * (length // len(word) + 1))[:length]


def test_many_streams_of_ours_are_echoed(peer: Peer) -> None:
    streams = [peer.open(b"echo:" + pattern(number, 200_000)) for number in range(40)]
    peer.run(lambda: peer.settled(streams))
    for number, stream in enumerate(streams):
        assert peer.end.received[stream.id] == pattern(number, 200_000)
        assert stream.id in peer.end.finished


def test_many_streams_of_theirs_are_echoed(peer: Peer) -> None:
    peer.ask("open", streams=40, bytes=200_000)
    echoed: Counter[int] = Counter()

    def echo() -> bool:
        streams = peer.end.streams
        for stream in streams.values():
            news = bytes(peer.end.received[stream.id][echoed[stream.id] :])
            if news:
                echoed[stream.id] += len(news)
                peer.end.send(stream, news)
            if stream.id in peer.end.finished and stream.id not in peer.end.finishing:
                peer.end.finish(stream)
        return len(streams) == 40 and peer.settled(list(streams.values()))

    peer.run(echo)
    assert peer.answer() == {"answer": [hashlib.sha256(pattern(n, 200_000)).hexdigest() for n in range(40)]}


def test_windows_both_ways_and_an_answer_after_the_end(peer: Peer) -> None:
    """Far more than a window, half-close, and all of it back after EOF (R5)."""
    stream = peer.open(b"after" + pattern(1, 5 * MEBIBYTE))
    peer.run(lambda: peer.settled([stream]))
    assert peer.end.received[stream.id] == pattern(1, 5 * MEBIBYTE)
    assert stream.receive_window.size >= INITIAL_WINDOW


def test_a_reader_that_does_not_read_stops_the_peer_at_the_window(peer: Peer) -> None:
    stream = peer.open(b"after" + pattern(2, 2 * MEBIBYTE))
    peer.run(lambda: peer.end.held[stream.id] == INITIAL_WINDOW, consume=False)
    other = peer.open(b"echo:beside it")
    peer.run(lambda: other.id in peer.end.finished, consume=False)
    assert peer.end.held[stream.id] == INITIAL_WINDOW
    peer.run(lambda: peer.settled([stream]))
    assert peer.end.received[stream.id] == pattern(2, 2 * MEBIBYTE)


def test_a_stream_without_an_answer(peer: Peer) -> None:
    stream = peer.open(b"sink:" + pattern(3, MEBIBYTE))
    peer.run(lambda: peer.settled([stream]))
    assert peer.end.received[stream.id] == b""


def test_pings_both_ways(peer: Peer) -> None:
    """It asks at once, when it starts, and takes an answer that it did not ask for as an error."""
    peer.end.tick(time.monotonic())
    peer.run(lambda: peer.end.session.rtt is not None)
    peer.ask("ping")
    stream = peer.open(b"echo:behind the ping")
    peer.run(lambda: peer.settled([stream]))
    assert peer.answer()["answer"] >= 0


def test_we_reset(peer: Peer) -> None:
    peer.ask("open", streams=1, bytes=100)
    peer.run(lambda: len(peer.end.streams) == 1)
    (stream,) = peer.end.streams.values()
    peer.end.kill(stream)
    other = peer.open(b"echo:still here")
    peer.run(lambda: peer.settled([other]))
    assert "reset" in peer.answer()["error"]


@pytest.mark.parametrize("peer", [("libp2p", "client"), ("libp2p", "server")], ids="-".join, indirect=True)
def test_they_reset(peer: Peer) -> None:
    """hashicorp/yamux has no call for it."""
    stream = peer.open(b"reset", finish=False)
    peer.run(lambda: stream.id in peer.end.reset)
    peer.ask("abort")
    peer.run(lambda: len(peer.end.reset) == 2)
    assert peer.answer() == {"answer": "aborted"}
    other = peer.open(b"echo:still here")
    peer.run(lambda: peer.settled([other]))


def test_our_cause_arrives_as_a_private_code(peer: Peer) -> None:
    stream = peer.open(b"echo:hello")
    peer.run(lambda: peer.settled([stream]))
    peer.end.goaway(GoAwayCode.TOKEN_REVOKED)
    assert peer.answer()["ended"] in (GoAwayCode.TOKEN_REVOKED, "unexpected go away received")


def test_their_goaway_ends_the_session(peer: Peer) -> None:
    stream = peer.open(b"echo:hello")
    peer.run(lambda: peer.settled([stream]))
    peer.ask("close")
    peer.run(lambda: peer.eof)
    assert peer.end.goaway_code == GoAwayCode.NORMAL
    assert not peer.end.session.can_open
