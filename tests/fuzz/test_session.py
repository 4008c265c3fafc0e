"""RemoteError or events, nothing else; the same whole and byte by byte; memory bounded by the limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.protocol.errors import RemoteError
from relay.protocol.limits import HEADER_SIZE, Limits
from relay.protocol.session import Session
from relay.protocol.stream_ids import REORDER
from tests.fuzz.inputs import corpus, fuzz, inputs
from tests.support.wire import Told, told

LIMITS = Limits(max_streams=5, backlog=4, resets=0, pings=5, control_bytes=20 * HEADER_SIZE)
OURS = 2


def session(*, client: bool) -> Session:
    """With two streams of our own, one of them silent, so that frames for them mean something."""
    made = Session(client=client, now=0.0, limits=LIMITS)
    made.finish(made.open(0.0))
    made.open(0.0)
    return made


def feed(made: Session, data: bytes, piece: int | None) -> tuple[list[Told], str]:
    said: list[Told] = []
    try:
        told(made, data, piece=piece, said=said)
    except RemoteError as error:
        assert made.broken
        return said, str(error)
    return said, ""


def check(data: bytes, *, client: bool) -> None:
    whole, single = session(client=client), session(client=client)
    assert feed(whole, data, None) == feed(single, data, 1)
    assert whole.outbox == single.outbox
    for made in (whole, single):
        assert len(made.streams) <= LIMITS.max_streams + OURS
        assert len(made.outbox) <= LIMITS.control_bytes + HEADER_SIZE
        assert len(made._head) < HEADER_SIZE
        assert len(made._ids._peer_skipped) <= REORDER
        assert made._inbound == sum(stream.id % 2 == 1 - client % 2 for stream in made.streams.values())
        # Whatever came, our own acts still work.
        for stream in list(made.streams.values()):
            made.consumed(stream, 0, 1.0)
            made.reset(stream)
        made.goaway(1)
        made.on_time(1.0)
        assert made.streams == {}


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("data", corpus("session"))
def test_corpus(data: bytes, client: bool) -> None:
    check(data, client=client)


@fuzz
@given(inputs("session"), st.booleans())
def test_noise(data: bytes, client: bool) -> None:
    check(data, client=client)
