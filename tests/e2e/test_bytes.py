"""Streams through two real nodes arrive complete and in order (P9), and one slow reader stops nobody else (P10)."""

import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import pytest

from relay.demo import check
from relay.demo.service import CHUNK, GREETING, random_chunks
from relay.demo.topology import Topology
from relay.demo.wait import wait_until
from tests.support.leaks import holds_at_most, sockets_of

MIB = 1024 * 1024
STREAMS, PER_STREAM = 8, 8 * MIB
SECONDS = 60.0


@pytest.fixture(autouse=True)
def no_socket_is_left(mesh: Topology) -> Iterator[None]:
    """After a test the daemons hold as many sockets as before: its streams have left none."""
    entry = mesh.entries["web"]
    check.greeting(entry)  # the sessions between the nodes are warm from here on
    before = {name: sockets_of(mesh.process(name).pid) for name in ("node-a", "node-b", "agent-1")}
    yield
    for name, count in before.items():
        back = partial(holds_at_most, mesh.process(name).pid, count)
        wait_until(back, seconds=SECONDS, what=f"{name} holds {count} sockets", watch=mesh.check_alive)


def slow_exchange(entry: check.Entry, *, seed: int, others_done: threading.Event) -> tuple[int, int]:
    """Exchange PER_STREAM bytes each way at 64 KiB/s until the others are done, then at full speed.

    Returns the bytes read when the others were done, and in all.
    """
    content = random_chunks(seed, PER_STREAM)
    with check.request(entry, "POST", f"/exchange?n={PER_STREAM}&seed={seed}", body=PER_STREAM) as answer:
        body = threading.Thread(target=answer.send, args=(random_chunks(seed + 1, PER_STREAM),), daemon=True)
        body.start()
        slowly = 0
        while not others_done.wait(1.0):
            answer.expect([next(content)], what="slow reader")
            slowly += CHUNK
        answer.expect(content, what="slow reader, afterwards")
        answer.expect([check.digest_of(random_chunks(seed + 1, PER_STREAM))], what="slow reader's upload")
        body.join(SECONDS)
    return slowly, PER_STREAM


def test_64_mib_each_way_at_once_beside_a_slow_reader(mesh: Topology) -> None:
    entry, seed = mesh.entries["web"], random.randrange(2**30)
    others_done = threading.Event()
    with ThreadPoolExecutor(STREAMS) as pool:
        slow = pool.submit(slow_exchange, entry, seed=seed, others_done=others_done)
        fast = [
            pool.submit(check.exchange, entry, seed=seed + 100 * number, size=PER_STREAM)
            for number in range(1, STREAMS)
        ]
        pending = wait(fast, timeout=SECONDS).not_done
        others_done.set()
        assert not pending
        for future in fast:
            future.result()
        slowly, total = slow.result(SECONDS)
    assert slowly < total / 2, "the others finished only when the slow reader nearly had"


def test_answer_after_half_close(mesh: Topology) -> None:
    check.half_close(mesh.entries["web"], seed=random.randrange(2**30), size=MIB)


def test_half_close_of_the_service_first(mesh: Topology) -> None:
    """The service ends its half after the answer while the user still has his open: a clean end, not a reset."""
    with socket.create_connection(mesh.entries["web"], timeout=SECONDS) as user:
        user.sendall(b"GET / HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n")
        with user.makefile("rb") as answer:
            assert answer.read().endswith(GREETING)


@pytest.mark.parametrize("size", [0, 1, 16 * 1024 - 1, 16 * 1024, 256 * 1024 + 1])
def test_sizes_around_records_frames_and_windows(mesh: Topology, size: int) -> None:
    entry, seed = mesh.entries["web"], random.randrange(2**30)
    check.exchange(entry, seed=seed, size=size)
    check.half_close(entry, seed=seed, size=size)


def test_user_who_resets_leaves_nothing(mesh: Topology) -> None:
    """`no_socket_is_left` is the assertion."""
    with check.request(mesh.entries["web"], "GET", "/bytes?n=1000000000&seed=1") as answer:
        answer.expect(random_chunks(1, MIB), what="the beginning")
        answer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
