"""The load generator and the target, on a wire that is right and on wires that are not."""

import socket
from collections.abc import Iterator

import pytest

from benchmarks import generator
from benchmarks.load.dial import LoadFailed
from benchmarks.load.percentiles import percentiles
from tests.benchmarks.wire import PIECE, spoil, wire

LENGTH = 300_000


@pytest.fixture(scope="module")
def target() -> Iterator[int]:
    with generator.target() as port:
        yield port


def move(port: int, *, up: bool, streams: int = 1) -> generator.Result:
    return generator.measure("bulk", timeout=20, port=port, streams=streams, length=LENGTH, up=up, verified=True)


@pytest.mark.parametrize("streams", [1, 8])
@pytest.mark.parametrize("up", [True, False])
def test_bulk_is_verified(target: int, up: bool, streams: int) -> None:
    assert move(target, up=up, streams=streams)["bytes"] == LENGTH * streams


@pytest.mark.parametrize("up", [True, False])
def test_a_changed_byte_is_found(target: int, up: bool) -> None:
    with wire(target, spoil) as port, pytest.raises(LoadFailed, match="is wrong"):
        move(port, up=up)


def test_an_early_end_is_found(target: int) -> None:
    def change(data: bytes) -> bytes:
        if len(data) < PIECE:
            raise OSError
        return data

    with wire(target, change) as port, pytest.raises(LoadFailed, match="ended after"):
        move(port, up=False)


def test_commands_answer_in_json(target: int) -> None:
    latency = generator.measure("latency", timeout=20, port=target, seconds=0.05)
    assert latency["samples"] > 0
    connect = generator.measure("connect", timeout=20, port=target, seconds=0.05)
    assert connect["count"] >= 32
    assert connect["failed"] == 0


@pytest.mark.parametrize("rate", [0, 50_000_000])
def test_pace_goes_on_until_stdin_ends(target: int, rate: int) -> None:
    with generator.started("pace", port=target, rate=rate) as bulk:
        generator.wait_until_ready(bulk)
        generator.measure("latency", timeout=20, port=target, seconds=0.05)
        assert bulk.poll() is None
        assert generator.result_of(bulk, timeout=20)["rate"] > 0


def test_idle_streams_are_held_until_stdin_ends(target: int) -> None:
    with generator.started("idle", port=target, streams=50) as process:
        generator.wait_until_ready(process)
        assert process.poll() is None
        assert generator.result_of(process, timeout=20)["streams"] == 50


def test_a_refused_connection_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for command in ("latency", "bulk", "idle"):
        with pytest.raises(LoadFailed, match="refused"):
            generator.measure(command, timeout=20, port=port)


def test_p99_needs_a_hundred_samples() -> None:
    assert percentiles(range(99))["p99"] is None
    assert percentiles([1000 * value for value in range(100)]) == {"samples": 100, "p50": 50.0, "p99": 99.0}
