"""Promise P7: a silent dead peer is noticed within 35 s, and a slow one that still delivers is not dead."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.protocol.errors import GoAwayCode, KeepaliveTimeout
from relay.protocol.limits import Limits
from relay.protocol.session import Session
from tests.support.wire import ACK, DATA, PING, SYN, WINDOW_UPDATE, Wire, frame, told


def test_a_ping_goes_out_at_once_and_then_every_20_s() -> None:
    session = Session(client=True, now=100.0)
    for number, now in enumerate((100.0, 120.0, 140.0), 1):
        assert session.deadline == now
        session.on_time(now - 0.01)
        assert session.outbox == b""
        session.on_time(now)
        assert session.take_outbox() == frame(PING, SYN, 0, number)
        told(session, frame(PING, ACK, 0, number), now=now + 0.25)
        assert session.rtt == 0.25


def test_silence_after_a_ping_is_death() -> None:
    session = Session(client=True, now=0.0)
    session.on_time(0.0)
    session.on_time(14.9)
    with pytest.raises(KeepaliveTimeout, match="nothing received for 15 s") as raised:
        session.on_time(15.0)
    assert raised.value.code == GoAwayCode.KEEPALIVE


def test_any_byte_is_a_sign_of_life() -> None:
    """On a slow link the answer queues behind data: a frame of 112 bytes, one byte every 14 s, and no answer."""
    session = Session(client=True, now=0.0)
    session.on_time(0.0)
    data = frame(DATA, SYN, 2, payload=bytes(100))
    for place in range(len(data)):
        told(session, data[place : place + 1], now=14.0 * (place + 1))
        session.on_time(14.0 * (place + 1) + 13.9)
    assert session.take_outbox() == frame(PING, SYN, 0, 1) + frame(WINDOW_UPDATE, ACK, 2)


def test_an_answer_to_nothing_is_ignored() -> None:
    session = Session(client=True, now=0.0)
    told(session, frame(PING, ACK, 0, 0) + frame(PING, ACK, 0, 1))
    session.on_time(0.0)
    told(session, frame(PING, ACK, 0, 2), now=1.0)
    assert session.rtt is None
    told(session, frame(PING, ACK, 0, 1), now=2.0)
    told(session, frame(PING, ACK, 0, 1), now=3.0)
    assert session.rtt == 2.0


def test_a_peer_that_spoke_after_the_ping_is_asked_again() -> None:
    session = Session(client=True, now=0.0)
    session.on_time(0.0)
    told(session, frame(PING, SYN), now=1.0)
    assert session.deadline == 16.0
    session.take_outbox()
    session.on_time(16.0)
    assert session.take_outbox() == frame(PING, SYN, 0, 2)
    with pytest.raises(KeepaliveTimeout):
        session.on_time(31.0)


def test_a_process_that_slept_asks_again_before_it_judges() -> None:
    """SIGSTOP for a minute: the answer may lie unread in the socket when the timer fires first."""
    session = Session(client=True, now=0.0)
    session.on_time(0.0)
    session.take_outbox()
    session.on_time(60.0)
    assert session.take_outbox() == frame(PING, SYN, 0, 2)
    with pytest.raises(KeepaliveTimeout):
        session.on_time(75.0)


def test_ping_ids_wrap() -> None:
    session = Session(client=True, now=0.0)
    session._keepalive._ping_id = 0xFFFF_FFFF
    session.on_time(0.0)
    assert session.take_outbox() == frame(PING, SYN, 0, 0)


@given(
    gaps=st.lists(st.floats(0.001, 14.9), max_size=20),
    answers=st.lists(st.booleans(), min_size=20, max_size=20),
    lateness=st.lists(st.floats(0.0, 1.0), min_size=80, max_size=80),
)
def test_a_dead_peer_is_noticed_in_time(gaps: list[float], answers: list[bool], lateness: list[float]) -> None:
    """The peer speaks every so often, answering pings or not, and dies; timers fire up to a second late. It is noticed
    within 35 s and the lateness of two timers, never while it lives, and no storm of pings goes out."""
    session = Session(client=True, now=0.0)
    signs = list(zip(itertools.accumulate(gaps), answers, strict=False))
    died = signs[-1][0] if signs else 0.0
    pings: list[float] = []
    now = 0.0
    for late in lateness:
        before = session.deadline
        now = max(now, before) + late
        while signs and signs[0][0] <= now:
            at, answer = signs.pop(0)
            told(session, frame(PING, ACK, 0, len(pings) if answer else 0), now=at)
        try:
            session.on_time(now)
        except KeepaliveTimeout:
            break
        if session.take_outbox():
            pings.append(now)
        assert session.deadline > before, "the deadline is stuck"
    assert died <= now <= died + 35.0 + 2 * 1.0
    assert all(after - before >= Limits().keepalive_answer for before, after in itertools.pairwise(pings))


@pytest.mark.parametrize("side", [0, 1])
def test_both_sides_notice_a_black_hole(side: int) -> None:
    """One direction dies without a word: its reader notices within 35 s, and its writer hears of it."""
    wire = Wire(delay=0.05)
    wire.pipes[side].dead = True
    died = wire.now
    while not all(end.closed for end in wire.ends):
        wire.now += 0.5
        for end in wire.ends:
            end.tick(wire.now)
        wire.settle()
        assert wire.now - died <= 35.0
    assert wire.ends[1 - side].error is not None
    assert wire.ends[side].goaway_code == GoAwayCode.KEEPALIVE


def test_an_honest_idle_session_stays() -> None:
    wire = Wire(delay=0.2)
    for _ in range(600):
        wire.now += 1.0
        for end in wire.ends:
            end.tick(wire.now)
        wire.settle()
    assert not any(end.closed for end in wire.ends)
    assert wire.ends[0].session.rtt == pytest.approx(0.4, abs=0.3)
