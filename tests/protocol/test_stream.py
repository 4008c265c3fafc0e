"""Every state of a stream with every frame there can be: what the table allows happens, the rest changes nothing."""

import itertools

import pytest

from relay.protocol.errors import LocalError, RemoteError
from relay.protocol.frames import LEGAL
from relay.protocol.limits import HEADER_SIZE, INITIAL_WINDOW, MAX_WINDOW
from relay.protocol.session import Session
from relay.protocol.stream import RECEIVING, SENDING, TABLE, Act, State, Stream
from tests.support.wire import ACK, DATA, FIN, RST, SYN, WINDOW_UPDATE, frame, told

STATES = {name: value for name, value in vars(State).items() if name.isupper()}
ACTS = {name: value for name, value in vars(Act).items() if name.isupper()}
PEERS = 1
CASES = [
    pytest.param(state, ours, id=f"{name}-{'ours' if ours else 'peers'}")
    for name, state in STATES.items()
    for ours in (True, False)
    if ours or state != State.IDLE  # a stream that the peer opens is never idle
]


def in_state(state: int, *, ours: bool) -> tuple[Session, Stream]:
    """A server's session with a stream in this state, opened by us or by the peer."""
    session = Session(client=False, now=0.0)
    if ours:
        stream = session.open(0.0)
        if state not in (State.IDLE, State.CLOSED):
            session.send_data(stream, bytearray(HEADER_SIZE), HEADER_SIZE, HEADER_SIZE)
    else:
        told(session, frame(DATA, SYN, PEERS))
        stream = session.streams[PEERS]
        session.accept(stream)
    if state == State.CLOSED:
        if ours:
            session.finish(stream)
        session.reset(stream)
    elif state == State.LOCAL_FINISHED:
        session.finish(stream)
    elif state == State.REMOTE_FINISHED:
        told(session, frame(DATA, FIN, stream.id))
    session.take_outbox()
    assert stream.state == state
    return session, stream


def facts(session: Session) -> dict[str, object]:
    """All that a session knows, but for when it last heard of the peer and that it is broken."""
    known = {name: value for name, value in vars(session).items() if name not in ("_keepalive", "_guard", "broken")}
    known["streams"] = {
        stream.id: (stream.state, stream.accepted, stream.send_window, slots(stream.receive_window))
        for stream in session.streams.values()
    }
    known["outbox"] = bytes(session.outbox)
    known["_ids"] = slots(session._ids)
    return known


def slots(thing: object) -> dict[str, object]:
    return {name: getattr(thing, name) for name in type(thing).__slots__}  # type: ignore[attr-defined]


def acts_of(kind: int, flags: int, length: int) -> list[int]:
    if flags & RST:
        return [Act.RECV_RESET]
    acts = [Act.RECV_DATA] if kind == DATA and length else []
    return [*acts, Act.RECV_FIN] if flags & FIN else acts


def walk(state: int, acts: list[int]) -> int | None:
    """Where the table leads, or None where it leads nowhere."""
    for act in acts:
        if (state, act) not in TABLE:
            return None
        state = TABLE[state, act]
    return state


FRAMES = [
    (kind, flags, length)
    for kind, flags, length in itertools.product(
        (DATA, WINDOW_UPDATE), range(16), (0, 1, INITIAL_WINDOW, INITIAL_WINDOW + 1, MAX_WINDOW)
    )
    # Not the four gigabytes of a reset's payload.
    if not (kind == DATA and flags & RST and length > INITIAL_WINDOW + 1)
]


@pytest.mark.parametrize(("state", "ours"), CASES)
def test_every_frame_in_every_state(state: int, ours: bool) -> None:
    for kind, flags, length in FRAMES:
        session, stream = in_state(state, ours=ours)
        before = facts(session)
        data = frame(kind, flags, stream.id, length)
        if not is_legal(state, stream, kind, flags, length):
            with pytest.raises(RemoteError):
                told(session, data)
            assert facts(session) == before, (kind, flags, length)
        elif state == State.CLOSED:
            assert told(session, data) == []
            assert session.streams == {}
        else:
            payload = bytes(length) if kind == DATA else b""
            said = [event[0] for event in told(session, data + payload)]
            after = walk(state, acts_of(kind, flags, length))
            assert stream.state == after, (kind, flags, length)
            assert (stream.id in session.streams) == (after != State.CLOSED)
            assert said == expected_events(state, kind, flags, length), (kind, flags, length)


def is_legal(state: int, stream: Stream, kind: int, flags: int, length: int) -> bool:
    """The judgement of SPEC.md, written a second time."""
    if (kind, flags) not in LEGAL or flags & SYN or state == State.IDLE:
        return False
    if state == State.CLOSED:
        return kind == WINDOW_UPDATE or length <= 1024 * 1024
    if flags & RST:
        return True
    if kind == DATA and length > stream.receive_window.credit:
        return False
    if kind == WINDOW_UPDATE and stream.send_window + length > MAX_WINDOW:
        return False
    return walk(state, acts_of(kind, flags, length)) is not None


def expected_events(state: int, kind: int, flags: int, length: int) -> list[str]:
    if flags & RST:
        return ["reset"]
    said = []
    if length and kind == DATA:
        said.append("data")
    if length and kind == WINDOW_UPDATE and state & SENDING:
        said.append("credit")
    if flags & FIN:
        said.append("finished")
    return said


@pytest.mark.parametrize(("state", "ours"), CASES)
def test_every_act_of_ours_in_every_state(state: int, ours: bool) -> None:
    for name, act in (("data", Act.SEND_DATA), ("fin", Act.SEND_FIN), ("finish", Act.SEND_FIN)):
        session, stream = in_state(state, ours=ours)
        before = facts(session)
        if (state, act) not in TABLE:
            with pytest.raises(LocalError):
                perform(session, stream, name)
            assert facts(session) == before
        else:
            sent = perform(session, stream, name)
            assert stream.state == TABLE[state, act]
            assert bool(sent[3] & SYN) == (state == State.IDLE)
            assert bool(sent[3] & FIN) == (act == Act.SEND_FIN)
    session, stream = in_state(state, ours=ours)
    session.reset(stream)
    assert stream.state == State.CLOSED
    known = state not in (State.IDLE, State.CLOSED)
    assert bytes(session.outbox) == (frame(WINDOW_UPDATE, RST, stream.id) if known else b"")


def perform(session: Session, stream: Stream, name: str) -> bytes:
    if name == "finish":
        session.finish(stream)
        return bytes(session.outbox)
    buffer = bytearray(HEADER_SIZE + 1)
    session.send_data(stream, buffer, HEADER_SIZE, HEADER_SIZE + 1, fin=name == "fin")
    return bytes(buffer)


def test_the_bits_of_a_state_are_its_rows_in_the_table() -> None:
    for state in STATES.values():
        assert bool(state & SENDING) == ((state, Act.SEND_DATA) in TABLE) == ((state, Act.SEND_FIN) in TABLE)
        assert bool(state & RECEIVING) == ((state, Act.RECV_DATA) in TABLE) == ((state, Act.RECV_FIN) in TABLE)


def test_what_a_stream_says_of_itself() -> None:
    says = {}
    for name, state in STATES.items():
        stream = Stream(1, state=state, accepted=True, now=0.0)
        says[name] = (stream.open, stream.may_send, stream.may_receive)
    assert says == {
        "IDLE": (True, True, True),
        "OPEN": (True, True, True),
        "LOCAL_FINISHED": (True, False, True),
        "REMOTE_FINISHED": (True, True, False),
        "CLOSED": (False, False, False),
    }


def test_an_acknowledgement_means_nothing() -> None:
    session, stream = in_state(State.OPEN, ours=True)
    assert told(session, frame(WINDOW_UPDATE, ACK, stream.id) * 3) == []
    assert stream.state == State.OPEN
