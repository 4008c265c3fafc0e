"""A session beyond single frames: opening, refusing, draining, credit, floods, and what owners do between events."""

import itertools
import weakref

import pytest

from relay.protocol.errors import FloodError, GoAwayCode, LocalError, RemoteError
from relay.protocol.events import CreditReceived, DataReceived, StreamFinished, StreamOpened, StreamReset
from relay.protocol.limits import HEADER_SIZE, INITIAL_WINDOW, MAX_STREAM_ID, MAX_WINDOW, Limits
from relay.protocol.session import Session
from relay.protocol.stream import State, Stream
from tests.support.wire import ACK, DATA, FIN, GO_AWAY, PING, RST, SYN, WINDOW_UPDATE, Wire, frame, told


def server(**limits: float) -> Session:
    return Session(client=False, now=0.0, limits=Limits(**limits))  # type: ignore[arg-type]


def client() -> Session:
    return Session(client=True, now=0.0)


def accepted(session: Session, stream_id: int = 1) -> Stream:
    told(session, frame(DATA, SYN, stream_id))
    stream = session.streams[stream_id]
    session.accept(stream)
    session.take_outbox()
    return stream


def send(session: Session, stream: Stream, payload: bytes, *, fin: bool = False) -> bytes:
    """What goes to the wire: the outbox, then the frame."""
    buffer = bytearray(HEADER_SIZE) + payload
    session.send_data(stream, buffer, HEADER_SIZE, len(buffer), fin=fin)
    return bytes(session.take_outbox() + buffer)


# -- opening -----------------------------------------------------------------------------------------------------------


def test_the_syn_rides_on_the_first_data() -> None:
    session = client()
    stream = session.open(0.0)
    assert session.outbox == b""
    assert send(session, stream, b"hello") == frame(DATA, SYN, 1, payload=b"hello")
    assert send(session, stream, b"again") == frame(DATA, 0, 1, payload=b"again")
    assert session.open(0.0).id == 3


def test_an_inbound_stream_is_acknowledged_at_once() -> None:
    session = server()
    assert told(session, frame(DATA, SYN, 1, payload=b"hi")) == [("opened", 1), ("data", 1, b"hi")]
    assert session.take_outbox() == frame(WINDOW_UPDATE, ACK, 1)


def test_a_stream_may_open_finish_and_carry_bytes_in_one_frame() -> None:
    session = server()
    said = told(session, frame(DATA, SYN | FIN, 1, payload=b"all"))
    assert said == [("opened", 1), ("data", 1, b"all"), ("finished", 1)]
    assert session.streams[1].state == State.REMOTE_FINISHED


def test_a_stream_may_open_with_a_larger_window() -> None:
    session = server()
    assert told(session, frame(WINDOW_UPDATE, SYN, 1, 1000)) == [("opened", 1), ("credit", 1)]
    assert session.streams[1].send_window == INITIAL_WINDOW + 1000


def test_syns_leave_in_the_order_of_their_ids() -> None:
    """Streams are opened in one order and first used in another: the earlier ones are announced first."""
    session, peer = client(), server()
    first, second, third, fourth = (session.open(0.0) for _ in range(4))
    session.reset(second)
    wire = send(session, fourth, b"four") + send(session, first, b"one")
    session.finish(third)
    wire += session.take_outbox()
    said = told(peer, wire)
    assert said == [
        ("opened", 1),
        ("opened", 5),
        ("opened", 7),
        ("data", 7, b"four"),
        ("data", 1, b"one"),
        ("finished", 5),
    ]


def test_finishing_a_silent_stream_announces_it() -> None:
    session = client()
    session.finish(session.open(0.0))
    assert session.take_outbox() == frame(DATA, SYN | FIN, 1)


def test_a_silent_stream_that_is_reset_was_never_there() -> None:
    session = client()
    session.reset(session.open(0.0))
    assert session.outbox == b""
    assert session.streams == {}


def test_a_peer_cannot_use_a_stream_before_its_syn() -> None:
    for data in (frame(DATA, 0, 1, payload=b"x"), frame(WINDOW_UPDATE, ACK, 1), frame(WINDOW_UPDATE, RST, 1)):
        session = client()
        stream = session.open(0.0)
        with pytest.raises(RemoteError, match="not been opened yet"):
            told(session, data)
        assert stream.state == State.IDLE


def test_ids_run_out_and_none_is_used_twice() -> None:
    """R42: the last id is used, then a new session has to be dialled."""
    session = Session(client=True, now=0.0, first_id=MAX_STREAM_ID - 2)
    assert [session.open(0.0).id, session.open(0.0).id] == [MAX_STREAM_ID - 2, MAX_STREAM_ID]
    assert not session.can_open
    with pytest.raises(LocalError):
        session.open(0.0)
    assert len(session.streams) == 2


# -- refusing ----------------------------------------------------------------------------------------------------------


def test_the_backlog_is_bounded() -> None:
    """R42: 10,000 streams that nobody answers: the 257th is reset, and counted."""
    session = server(control_bytes=1 << 20)
    said = told(session, b"".join(frame(DATA, SYN, number) for number in range(1, 20_001, 2)))
    assert len(said) == len(session.streams) == 256
    assert session.refused == 10_000 - 256
    assert session.take_outbox()[256 * 12 : 257 * 12] == frame(WINDOW_UPDATE, RST, 513)


def test_accepting_makes_room_in_the_backlog() -> None:
    session = server(backlog=1)
    told(session, frame(DATA, SYN, 1) + frame(DATA, SYN, 3))
    assert list(session.streams) == [1]
    session.accept(session.streams[1])
    session.accept(session.streams[1])
    assert told(session, frame(DATA, SYN, 5)) == [("opened", 5)]


@pytest.mark.parametrize("last_words", [frame(WINDOW_UPDATE, RST, 1), None], ids=["peer", "we"])
def test_a_stream_that_ends_unanswered_makes_room(last_words: bytes | None) -> None:
    session = server(backlog=1)
    told(session, frame(DATA, SYN, 1))
    if last_words is None:
        session.reset(session.streams[1])
    else:
        told(session, last_words)
    assert told(session, frame(DATA, SYN, 3)) == [("opened", 3)]


def test_the_number_of_streams_is_bounded() -> None:
    session = server(max_streams=2)
    first = accepted(session, 1)
    accepted(session, 3)
    assert told(session, frame(DATA, SYN, 5)) == []
    told(session, frame(DATA, FIN, 1))
    session.finish(first)
    assert told(session, frame(DATA, SYN, 7)) == [("opened", 7)]


def test_our_own_streams_do_not_count_against_the_peer() -> None:
    session = server(max_streams=1)
    send(session, session.open(0.0), b"ours")
    assert told(session, frame(DATA, SYN, 1)) == [("opened", 1)]


@pytest.mark.parametrize("piece", [None, 1, 7])
def test_the_payload_of_a_refused_stream_is_skipped(piece: int | None) -> None:
    session = server(max_streams=1)
    accepted(session, 1)
    refused = (
        frame(DATA, SYN, 3, payload=b"x" * 1000) + frame(DATA, FIN, 3, payload=b"y") + frame(WINDOW_UPDATE, RST, 3)
    )
    assert told(session, refused + frame(DATA, 0, 1, payload=b"on"), piece=piece) == [("data", 1, b"on")]


def test_a_refused_id_is_used_up() -> None:
    session = server(max_streams=0)
    told(session, frame(DATA, SYN, 1))
    with pytest.raises(RemoteError, match="again"):
        told(session, frame(DATA, SYN, 1))


# -- late frames -------------------------------------------------------------------------------------------------------


def test_late_frames_of_a_retired_stream_are_ignored() -> None:
    session = server()
    session.reset(accepted(session))
    session.take_outbox()
    late = (
        frame(DATA, 0, 1, payload=b"late" * 100)
        + frame(WINDOW_UPDATE, 0, 1, MAX_WINDOW)
        + frame(DATA, FIN, 1, payload=b"x")
        + frame(DATA, ACK | RST, 1, payload=b"x")
        + frame(WINDOW_UPDATE, RST, 1)
    )
    assert told(session, late) == []
    assert told(session, late, piece=1) == []
    assert session.outbox == b""


def test_a_late_frame_that_no_window_ever_allowed_is_illegal() -> None:
    session = server()
    session.reset(accepted(session))
    with pytest.raises(RemoteError, match="no window"):
        told(session, frame(DATA, 0, 1, 1024 * 1024 + 1))


@pytest.mark.parametrize("stream_id", [1, 2, 3, MAX_STREAM_ID])
def test_a_frame_for_a_stream_that_never_was_is_illegal(stream_id: int) -> None:
    with pytest.raises(RemoteError, match="never opened"):
        told(server(), frame(WINDOW_UPDATE, 0, stream_id, 1))


# -- GOAWAY ------------------------------------------------------------------------------------------------------------


def test_after_our_goaway_new_streams_are_refused_and_old_ones_go_on() -> None:
    """R40: the new stream is refused without being delivered, the accepted one finishes."""
    session = server()
    stream = accepted(session)
    session.goaway()
    assert session.take_outbox() == frame(GO_AWAY, 0, 0, 0)
    assert told(session, frame(DATA, SYN, 3, payload=b"new")) == []
    assert session.take_outbox() == frame(WINDOW_UPDATE, RST, 3)
    assert session.refused == 1
    assert told(session, frame(DATA, FIN, 1, payload=b"old")) == [("data", 1, b"old"), ("finished", 1)]
    assert send(session, stream, b"answer", fin=True) == frame(DATA, FIN, 1, payload=b"answer")
    assert session.streams == {}


def test_after_the_peers_goaway_we_open_nothing_and_old_ones_go_on() -> None:
    session = client()
    stream = session.open(0.0)
    send(session, stream, b"request")
    assert told(session, frame(GO_AWAY, 0, 0, 0)) == [("goaway", 0)]
    assert not session.can_open
    with pytest.raises(LocalError):
        session.open(0.0)
    assert told(session, frame(DATA, FIN, 1, payload=b"answer")) == [("data", 1, b"answer"), ("finished", 1)]


def test_a_side_that_drains_opens_nothing_itself() -> None:
    session = client()
    session.goaway()
    assert not session.can_open


def test_a_cause_of_our_own_travels_in_the_code() -> None:
    session = client()
    session.goaway(GoAwayCode.TOKEN_REVOKED)
    assert told(server(), bytes(session.take_outbox())) == [("goaway", 0x746D_0001)]


def test_the_end_closes_every_stream() -> None:
    session = client()
    idle, opened = session.open(0.0), session.open(0.0)
    send(session, opened, b"x")
    assert session.end() == [idle, opened]
    assert session.end() == []
    assert not any((idle.open, opened.open, session.streams, session.can_open))
    with pytest.raises(LocalError):
        send(session, opened, b"more")


# -- credit ------------------------------------------------------------------------------------------------------------


def test_credit_is_returned_at_half_a_window() -> None:
    session = server(max_window=INITIAL_WINDOW)
    stream = accepted(session)
    told(session, frame(DATA, 0, 1, payload=bytes(INITIAL_WINDOW)))
    session.consumed(stream, INITIAL_WINDOW // 2 - 1, 1.0)
    assert session.outbox == b""
    session.consumed(stream, 1, 1.0)
    assert session.take_outbox() == frame(WINDOW_UPDATE, 0, 1, INITIAL_WINDOW // 2)
    with pytest.raises(RemoteError, match="the window has 131072"):
        told(session, frame(DATA, 0, 1, INITIAL_WINDOW // 2 + 1))


def test_nothing_is_returned_to_a_peer_that_has_finished() -> None:
    session = server()
    stream = accepted(session)
    told(session, frame(DATA, FIN, 1, payload=bytes(INITIAL_WINDOW)))
    session.consumed(stream, INITIAL_WINDOW, 0.0)
    assert session.outbox == b""


def test_bytes_may_be_consumed_after_their_stream_has_gone() -> None:
    session = server()
    stream = accepted(session)
    told(session, frame(DATA, 0, 1, payload=bytes(INITIAL_WINDOW)) + frame(WINDOW_UPDATE, RST, 1))
    session.consumed(stream, INITIAL_WINDOW, 0.0)
    assert session.outbox == b""


def test_no_credit_for_bytes_that_never_came() -> None:
    """Credit mirrored across hops, or returned twice, is a bug of ours (lessons.md)."""
    session = server()
    stream = accepted(session)
    told(session, frame(DATA, 0, 1, payload=b"12345"))
    with pytest.raises(LocalError, match="holds 5"):
        session.consumed(stream, 6, 0.0)
    session.consumed(stream, 5, 0.0)
    with pytest.raises(LocalError, match="holds 0"):
        session.consumed(stream, 1, 0.0)


def drain_quickly(session: Session, stream: Stream, seconds: float) -> int:
    """Use up half the window and consume it; by how much the window has grown."""
    size, half = stream.receive_window.size, stream.receive_window.size // 2
    told(session, frame(DATA, 0, stream.id, payload=bytes(half)), now=seconds)
    session.consumed(stream, half, stream.receive_window.last_grant + seconds)
    return stream.receive_window.size - size


def test_a_window_doubles_while_it_is_used_up_quickly() -> None:
    session = server()
    stream = accepted(session)
    assert [drain_quickly(session, stream, 0.01) for _ in range(4)] == [256 * 1024, 512 * 1024, 0, 0]
    assert stream.receive_window.size == Limits().max_window


def test_a_window_does_not_grow_for_a_slow_stream() -> None:
    session = server()
    assert drain_quickly(session, accepted(session), 0.011) == 0


def test_a_long_round_trip_lets_a_window_grow() -> None:
    session = server()
    session.on_time(0.0)
    told(session, frame(PING, ACK, 0, 1), now=0.1)
    assert session.rtt == 0.1
    assert drain_quickly(session, accepted(session), 0.39) == 256 * 1024


def test_the_growth_of_all_streams_is_bounded_and_comes_back() -> None:
    session = server(growth_budget=300 * 1024)
    first, second = accepted(session, 1), accepted(session, 3)
    assert drain_quickly(session, first, 0.0) == 256 * 1024
    assert drain_quickly(session, second, 0.0) == 44 * 1024
    session.reset(first)
    assert drain_quickly(session, second, 0.0) == 256 * 1024
    told(session, frame(WINDOW_UPDATE, RST, 3))
    assert drain_quickly(session, accepted(session, 5), 0.0) == 256 * 1024


def test_a_peer_grants_no_more_than_can_be_counted() -> None:
    session = server()
    stream = accepted(session)
    assert told(session, frame(WINDOW_UPDATE, 0, 1, MAX_WINDOW - INITIAL_WINDOW)) == [("credit", 1)]
    assert stream.send_window == MAX_WINDOW
    with pytest.raises(RemoteError, match="past"):
        told(session, frame(WINDOW_UPDATE, 0, 1, 1))
    assert stream.send_window == MAX_WINDOW


def test_credit_for_a_half_that_has_ended_is_not_told() -> None:
    session = server()
    session.finish(accepted(session))
    assert told(session, frame(WINDOW_UPDATE, 0, 1, 1)) == []


def test_nothing_is_sent_beyond_credit_nor_backwards() -> None:
    session = client()
    stream = session.open(0.0)
    buffer = bytearray(INITIAL_WINDOW + 100)
    for start, end in ((12, 12 + INITIAL_WINDOW + 1), (20, 19), (11, 12)):
        with pytest.raises(LocalError):
            session.send_data(stream, buffer, start, end)
        assert stream.send_window == INITIAL_WINDOW
        assert stream.state == State.IDLE
    session.send_data(stream, buffer, 12, 12 + INITIAL_WINDOW)
    assert stream.send_window == 0


# -- memory ------------------------------------------------------------------------------------------------------------


class Owner:
    """Whom a stream belongs to; it must go with its stream."""


@pytest.mark.parametrize(
    "last_words",
    [
        frame(DATA, FIN, 1, payload=b"x"),
        frame(DATA, FIN, 1),
        frame(DATA, RST, 1, payload=b"x"),
        frame(DATA, RST, 1),
        frame(DATA, 0, 1, payload=b"x") + frame(WINDOW_UPDATE, RST, 1),
    ],
)
@pytest.mark.parametrize("piece", [None, 1])
def test_nothing_is_kept_of_a_stream_that_has_ended(last_words: bytes, piece: int | None) -> None:
    session = server()
    stream = accepted(session)
    stream.owner = Owner()
    gone = weakref.ref(stream.owner)
    session.finish(stream)
    told(session, last_words, piece=piece)
    assert not stream.open
    del stream
    assert gone() is None


# -- the parser --------------------------------------------------------------------------------------------------------


def test_payload_points_into_the_buffer() -> None:
    session = server()
    accepted(session)
    buffer = b"junk" + frame(DATA, 0, 1, payload=b"payload") + b"junk"
    (event,) = session.receive(buffer, 4, len(buffer) - 4, 0.0)
    assert isinstance(event, DataReceived)
    assert buffer[event.start : event.end] == b"payload"


@pytest.mark.parametrize("piece", [1, 11, 12, 13, 19])
def test_fin_follows_the_last_byte_however_it_is_cut(piece: int) -> None:
    session = server()
    wire = frame(DATA, SYN, 1, payload=b"abc") + frame(DATA, FIN, 1, payload=b"defghij")
    assert told(session, wire, piece=piece) == [("opened", 1), ("data", 1, b"abcdefghij"), ("finished", 1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x01" + frame(PING, SYN)[1:], "version 1"),
        (frame(4), "type 4 with flags 0"),
        (frame(DATA, SYN | ACK, 1), "flags 0x3"),
        (frame(DATA, 16, 1), "flags 0x10"),
        (frame(DATA, 0, 0), "type 0 on stream 0"),
        (frame(WINDOW_UPDATE, SYN, 0), "type 1 on stream 0"),
        (frame(PING, SYN, 1), "type 2 on stream 1"),
        (frame(PING, 0), "type 2 with flags 0"),
        (frame(GO_AWAY, ACK), "type 3 with flags 0x2"),
        (frame(DATA, SYN, 2), "our parity"),
        (frame(DATA, SYN, 1, INITIAL_WINDOW + 1), "the window has"),
    ],
)
def test_illegal_headers(data: bytes, message: str) -> None:
    session = server()
    with pytest.raises(RemoteError, match=message) as raised:
        told(session, data)
    assert raised.value.code == GoAwayCode.PROTOCOL_ERROR
    assert session.streams == {}
    assert session.outbox == b""


def test_what_came_before_an_illegal_frame_is_told_and_what_comes_after_is_not() -> None:
    session = server()
    data = frame(DATA, SYN, 1, payload=b"x") + frame(9) + frame(DATA, SYN, 3)
    events = session.receive(data, 0, len(data), 0.0)
    assert isinstance(next(events), StreamOpened)
    assert isinstance(next(events), DataReceived)
    with pytest.raises(RemoteError):
        next(events)
    assert session.broken
    assert told(session, frame(DATA, SYN, 5)) == []
    assert list(session.streams) == [1]


def test_a_loop_that_is_left_early_breaks_the_session() -> None:
    session = server()
    data = frame(DATA, SYN, 1) + frame(DATA, SYN, 3)
    for _ in session.receive(data, 0, len(data), 0.0):
        break
    assert session.broken


def test_no_bytes_are_no_sign_of_life() -> None:
    session = server()
    session.on_time(0.0)
    told(session, frame(PING, ACK, 0, 99), now=1.0)
    assert list(session.receive(b"", 0, 0, 14.0)) == []
    assert session.deadline == 16.0


# -- floods ------------------------------------------------------------------------------------------------------------


BUDGET = Limits().backlog + Limits().resets


def open_and_reset(numbers: range) -> bytes:
    return b"".join(frame(DATA, SYN, number) + frame(WINDOW_UPDATE, RST, number) for number in numbers)


def test_opening_and_resetting_in_a_loop_ends_the_session() -> None:
    """R41: at the budget; and the stream whose reset is one too many is still there to be closed with the session."""
    session = server()
    opened = told(session, open_and_reset(range(1, 2 * BUDGET, 2)))
    assert opened.count(("opened", 2 * BUDGET - 1)) == 1
    with pytest.raises(FloodError) as raised:
        told(session, open_and_reset(range(2 * BUDGET + 1, 20_000, 2)))
    assert raised.value.code == GoAwayCode.FLOOD
    assert [stream.id for stream in session.end()] == [2 * BUDGET + 1]


def test_a_peer_may_reset_its_whole_backlog_at_once() -> None:
    """A node in the middle that loses one session resets all that waited on the other: it must not lose that too."""
    session = server(backlog=1000, control_bytes=1 << 20)
    told(session, b"".join(frame(DATA, SYN, number) for number in range(1, 2001, 2)))
    told(session, b"".join(frame(WINDOW_UPDATE, RST, number) for number in range(1, 2001, 2)))
    assert session.streams == {}
    assert session.refused == 0


def test_the_budget_of_resets_is_renewed() -> None:
    session = server()
    for number in range(5):
        first = 1 + 2 * BUDGET * number
        said = told(session, open_and_reset(range(first, first + 2 * BUDGET, 2)), now=10.0 * number)
        assert len(said) == 2 * BUDGET
        session.take_outbox()


def test_a_reset_of_an_answered_stream_is_no_flood() -> None:
    session = server(backlog=1, resets=0)
    for number in (1, 3, 5, 7):
        accepted(session, number)
    assert len(told(session, b"".join(frame(WINDOW_UPDATE, RST, number) for number in (3, 5, 7)))) == 3
    assert told(session, frame(WINDOW_UPDATE, RST, 1)) == [("reset", 1)]
    ours = session.open(0.0)
    send(session, ours, b"x")
    assert told(session, frame(WINDOW_UPDATE, RST, ours.id)) == [("reset", ours.id)]


def test_pings_are_answered_up_to_a_budget() -> None:
    session = server(pings=3)
    told(session, frame(PING, SYN, 0, 7) * 3)
    assert session.take_outbox() == frame(PING, ACK, 0, 7) * 3
    with pytest.raises(FloodError):
        told(session, frame(PING, SYN, 0, 8))
    assert session.outbox == b""


@pytest.mark.parametrize("asking", [frame(PING, SYN), frame(DATA, SYN, 5)], ids=["ping", "syn"])
def test_a_peer_that_does_not_read_cannot_make_us_answer_without_bound(asking: bytes) -> None:
    session = server(control_bytes=24)
    told(session, frame(PING, SYN) + frame(DATA, SYN, 1))
    streams = dict(session.streams)
    with pytest.raises(FloodError, match="24 bytes of control frames wait"):
        told(session, asking)
    assert session.streams == streams
    assert len(session.outbox) == 24


def test_a_full_control_queue_never_fails_our_own_acts() -> None:
    session = server(control_bytes=12)
    told(session, frame(DATA, SYN, 1, payload=bytes(INITIAL_WINDOW)))
    stream = session.streams[1]
    session.consumed(stream, INITIAL_WINDOW, 0.0)
    assert told(session, frame(WINDOW_UPDATE, 0, 1, 1)) == [("credit", 1)]
    session.on_time(0.0)
    session.finish(stream)
    session.reset(stream)
    session.goaway(GoAwayCode.FLOOD)
    assert len(session.take_outbox()) == 6 * 12
    assert told(session, frame(PING, SYN)) == []


# -- what the owner does between two events ----------------------------------------------------------------------------

ACTS = ["reset", "finish", "end", "goaway"]


def act(session: Session, stream: Stream, name: str) -> None:
    match name:
        case "reset":
            session.reset(stream)
        case "finish" if stream.may_send:
            session.finish(stream)
        case "end":
            session.end()
        case "goaway":
            session.goaway()


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("kind", [StreamOpened, DataReceived, CreditReceived, StreamFinished, StreamReset])
@pytest.mark.parametrize("piece", [1000, 1])
def test_an_act_between_two_events(name: str, kind: type, piece: int) -> None:
    """Whatever the owner does to the stream while it is told of it, no event of a closed stream follows."""
    session = server()
    wire = (
        frame(DATA, SYN | FIN, 1, payload=b"abc")
        + frame(WINDOW_UPDATE, SYN | FIN, 3, 9)
        + frame(DATA, SYN, 5)
        + frame(DATA, FIN, 5)
        + frame(WINDOW_UPDATE, RST, 5)
    )
    for start in range(0, len(wire), piece):
        for event in session.receive(wire, start, min(start + piece, len(wire)), 0.0):
            stream = event.stream  # type: ignore[union-attr]
            assert stream.open or isinstance(event, StreamFinished | StreamReset)
            if isinstance(event, kind):
                act(session, stream, name)
    assert not session.broken
    open_states = {stream.state for stream in session.streams.values()}
    assert State.CLOSED not in open_states
    assert session._inbound == len(session.streams)
    assert session._unaccepted == sum(not stream.accepted for stream in session.streams.values())


def test_credit_told_between_two_streams_reaches_the_right_one() -> None:
    """An owner that sends from inside the loop sees its own frames leave in the order of its acts."""
    wire = Wire()
    one, other = wire.ends
    stream = one.open(0.0)
    one.send(stream, bytes(range(256)) * 4096)
    one.finish(stream)
    wire.settle()
    assert other.received[1] == bytes(range(256)) * 4096
    assert other.finished == {1}


# -- reading our own frames --------------------------------------------------------------------------------------------


def test_both_ends_speak_on_many_streams() -> None:
    wire = Wire(delay=0.01)
    for side, count in itertools.product((0, 1), range(20)):
        end = wire.ends[side]
        stream = end.open(0.0)
        end.send(stream, bytes([side, count]) * 50_000)
        end.finish(stream)
    wire.settle()
    for side in (0, 1):
        here, there = wire.ends[side], wire.ends[1 - side]
        assert len(here.given) == 20
        for stream_id, given in here.given.items():
            assert there.received[stream_id] == given
            assert stream_id in there.finished
            there.finish(there.streams[stream_id])
    wire.settle()
    assert all(not end.session.streams and end.error is None for end in wire.ends)
