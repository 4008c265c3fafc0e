"""Listening sockets."""

import asyncio
import logging
import socket
from errno import EADDRINUSE, EAFNOSUPPORT, EMFILE

import pytest

from relay.demo.ports import LOOPBACK
from relay.net import acceptor as acceptor_module
from relay.net.acceptor import ACCEPT_BATCH, Acceptor, BindError, bind
from relay.net.engine import Engine
from tests.support.loopback import until


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


async def test_every_address_has_the_same_free_port() -> None:
    sockets = bind("", 0)
    assert len({port_of(sock) for sock in sockets}) == 1
    assert socket.AF_INET in {sock.family for sock in sockets}
    close(sockets)


async def test_a_port_that_is_free_in_one_family_only_is_tried_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    listen, failures = acceptor_module._listen, [OSError(EADDRINUSE, "taken")] * 3

    def taken_at_first(sock: socket.socket, address: tuple[object, ...]) -> None:
        if address[1] and failures:
            raise failures.pop()
        listen(sock, address)

    monkeypatch.setattr(acceptor_module, "_listen", taken_at_first)
    sockets = bind("", 0)
    assert not failures
    assert len({port_of(sock) for sock in sockets}) == 1
    close(sockets)


async def test_a_port_that_is_taken() -> None:
    sockets = bind(LOOPBACK, 0)
    with pytest.raises(BindError, match=rf"cannot listen on {LOOPBACK}:{port_of(sockets[0])}: Address already in use"):
        bind(LOOPBACK, port_of(sockets[0]))
    close(sockets)


async def test_an_address_of_somebody_else() -> None:
    with pytest.raises(BindError, match=r"192\.0\.2\.1"):
        bind("192.0.2.1", 0)


async def test_a_name_that_is_none() -> None:
    with pytest.raises(BindError, match=r"nowhere\.invalid"):
        bind("nowhere.invalid", 0)


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "two..dots", "nul\0"])
async def test_a_name_that_cannot_be_one(host: str) -> None:
    """The resolver raises something else for it than for a name that is not there."""
    with pytest.raises(BindError, match="cannot listen on"):
        bind(host, 0)


async def test_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """It resolves "every address" to `::` all the same."""
    make = socket.socket

    def without(family: int = socket.AF_INET, *args: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, *args)

    monkeypatch.setattr(acceptor_module.socket, "socket", without)
    sockets = bind("", 0)
    assert [sock.family for sock in sockets] == [socket.AF_INET]
    close(sockets)
    with pytest.raises(BindError, match="not supported"):
        bind("::1", 0)


async def test_connections_come_in_batches(engine: Engine) -> None:
    accepted: list[tuple[socket.socket, str]] = []
    batches: list[int] = []
    door = Acceptor(
        engine.loop,
        bind(LOOPBACK, 0),
        on_accepted=lambda sock, address: accepted.append((sock, address)),
        on_batch=lambda: batches.append(len(accepted)),
    )
    users = [socket.create_connection((LOOPBACK, door.port)) for _ in range(ACCEPT_BATCH + 1)]
    await until(lambda: len(accepted) == len(users))
    assert batches[0] == ACCEPT_BATCH
    assert {address for _, address in accepted} == {LOOPBACK}
    door.close()
    close(users + [sock for sock, _ in accepted])


async def test_while_it_pauses_who_comes_waits(engine: Engine) -> None:
    accepted: list[socket.socket] = []

    def take(sock: socket.socket, _: str) -> None:
        accepted.append(sock)
        door.pause()
        door.pause()

    door = Acceptor(engine.loop, bind(LOOPBACK, 0), on_accepted=take)
    users = [socket.create_connection((LOOPBACK, door.port)) for _ in range(3)]
    for count in range(1, len(users) + 1):
        await until(lambda count=count: len(accepted) >= count)  # type: ignore[misc]
        assert len(accepted) == count
        door.resume()
        door.resume()
    door.pause()
    door.close()
    door.resume()
    close(users + accepted)


async def test_who_takes_a_connection_may_close_the_door(engine: Engine) -> None:
    accepted: list[socket.socket] = []

    def last(sock: socket.socket, _: str) -> None:
        accepted.append(sock)
        door.close()

    door = Acceptor(engine.loop, bind(LOOPBACK, 0), on_accepted=last)
    users = [socket.create_connection((LOOPBACK, door.port)) for _ in range(3)]
    await until(lambda: bool(accepted))
    assert len(accepted) == 1
    close(users + accepted)


async def test_who_fails_to_take_a_connection(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """An OSError of his is no reason to pause, and the connection is closed."""
    failures: list[Exception] = [OSError(EMFILE, "too many files of his own"), LookupError("a bug")]
    accepted: list[socket.socket] = []

    def take(sock: socket.socket, _: str) -> None:
        if failures:
            raise failures.pop()
        accepted.append(sock)

    door = Acceptor(engine.loop, bind(LOOPBACK, 0), on_accepted=take)
    users = [socket.create_connection((LOOPBACK, door.port)) for _ in range(3)]
    await until(lambda: bool(accepted))
    assert [user.recv(1) for user in users[:2]] == [b"", b""]
    assert "a bug" in caplog.text
    assert "no connections are accepted" not in caplog.text
    door.close()
    close(users + accepted)


async def test_out_of_descriptors_it_pauses(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The listening socket stays readable: without a pause the loop would spin and fill the log."""
    monkeypatch.setattr(acceptor_module, "PAUSE", 0.05)
    accepted: list[socket.socket] = []
    listening = bind(LOOPBACK, 0)
    poor = Poor(listening[0])
    door = Acceptor(engine.loop, [poor], on_accepted=lambda sock, _: accepted.append(sock))  # type: ignore[list-item]
    user = socket.create_connection((LOOPBACK, door.port))
    await until(lambda: poor.refused == 1)
    for _ in range(100):
        await asyncio.sleep(0)
    assert poor.refused == 1
    assert not accepted
    await until(lambda: bool(accepted))
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "no connections are accepted" in caplog.text
    door.close()
    close([user, *accepted])


class Poor:
    """A listening socket for which there is no descriptor the first time, or another error."""

    def __init__(self, sock: socket.socket, error: OSError | None = None) -> None:
        self._sock = sock
        self._error = error or OSError(EMFILE, "Too many open files")
        self.refused = 0
        self.fileno, self.close, self.getsockname = sock.fileno, sock.close, sock.getsockname

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if not self.refused:
            self.refused += 1
            raise self._error
        return self._sock.accept()


async def test_a_connection_that_has_gone_is_no_reason_to_pause(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    accepted: list[socket.socket] = []
    poor = Poor(bind(LOOPBACK, 0)[0], ConnectionAbortedError("it has gone"))
    door = Acceptor(engine.loop, [poor], on_accepted=lambda sock, _: accepted.append(sock))  # type: ignore[list-item]
    user = socket.create_connection((LOOPBACK, door.port))
    await until(lambda: bool(accepted))
    assert poor.refused == 1
    assert not caplog.records
    door.close()
    close([user, *accepted])


async def test_closed_while_it_pauses(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_module, "PAUSE", 0.0)
    poor = Poor(bind(LOOPBACK, 0)[0])
    door = Acceptor(engine.loop, [poor], on_accepted=lambda *_: None)  # type: ignore[list-item]
    user = socket.create_connection((LOOPBACK, door.port))
    await until(lambda: poor.refused == 1)
    door.close()
    await asyncio.sleep(0.01)
    user.close()
