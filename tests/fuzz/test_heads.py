"""A value or BadHead, nothing else; found at the same place byte by byte; what is accepted, h11 reads alike."""

from __future__ import annotations

from collections.abc import Callable

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.protocol import connect, heads, problem, upgrade
from relay.protocol.errors import BadHead
from relay.protocol.heads import Fields
from tests.fuzz.inputs import corpus, fuzz, inputs


def cut(data: bytes) -> bytes | None:
    """The head in `data`, None if there is none yet; the same when it comes byte by byte."""
    try:
        whole = heads.find_end(data)
    except BadHead:
        whole = -1
    # Byte by byte the answer changes only at the head's last byte or at the limit.
    single = 0
    places = (
        {len(data), whole - 1, whole, heads.MAX_HEAD - 1, heads.MAX_HEAD} if len(data) > 500 else range(len(data) + 1)
    )
    for place in sorted(place for place in places if 0 <= place <= len(data)):
        try:
            single = heads.find_end(data[:place])
        except BadHead:
            single = -1
        if single:
            break
    assert single == whole
    return data[:whole] if whole > 0 else None


def same_fields(fields: Fields, event: h11.Request | h11.Response | h11.InformationalResponse) -> None:
    assert [(name.decode(), value.decode("latin-1")) for name, value in event.headers] == list(fields.items)


def oracle_request(head: bytes) -> None:
    """What `parse_request` took, read by h11."""
    request = heads.parse_request(head)
    event = read(h11.Connection(h11.SERVER), head)
    assert isinstance(event, h11.Request)
    assert (event.method.decode(), event.target.decode()) == (request.method, request.target)
    assert event.http_version == b"1.1"
    same_fields(request.fields, event)


def oracle_response(head: bytes) -> None:
    """What `parse_response` took, read by h11, which also judges how the body is framed: that is not asked here."""
    response = heads.parse_response(head)
    if response.fields.all("transfer-encoding"):
        return
    connection = h11.Connection(h11.CLIENT)
    fields = [("Host", "a"), ("Connection", "Upgrade"), ("Upgrade", "yamux")]
    connection.send(h11.Request(method="GET", target="/", headers=fields))
    event = read(connection, head)
    assert isinstance(event, h11.Response | h11.InformationalResponse)
    assert event.status_code == response.status
    same_fields(response.fields, event)


def read(connection: h11.Connection, head: bytes) -> object:
    connection.receive_data(head)
    return connection.next_event()


def fuzz_request(data: bytes) -> None:
    """`upgrade.decode_request`, and the request that it accepts, sent again."""
    head = cut(data)
    if head is None:
        return
    try:
        request = upgrade.decode_request(head)
    except BadHead:
        return
    oracle_request(head)
    assert upgrade.decode_request(request.encode()) == request


def fuzz_answer(data: bytes) -> None:
    head = cut(data)
    if head is None:
        return
    try:
        accepted = upgrade.decode_answer(head)
        connect.accepts(head)
        problem.body_length(head)
    except BadHead:
        return
    oracle_response(head)
    if accepted is not None:
        assert upgrade.decode_answer(accepted.encode()) == accepted


def fuzz_connect(data: bytes) -> None:
    head = cut(data)
    if head is None:
        return
    try:
        request = connect.decode_request(head)
    except BadHead:
        return
    oracle_request(head)
    assert connect.decode_request(request.encode()) == request
    assert request.authority.lower() == heads.parse_request(head).target.lower()


def fuzz_problem(data: bytes) -> None:
    head = cut(data)
    if head is None:
        return
    body = data[len(head) :]
    try:
        found = problem.decode(head, body)
        length = problem.body_length(head)
    except BadHead:
        return
    oracle_response(head)
    assert 0 <= length <= problem.MAX_BODY
    assert found.code.isidentifier()
    assert not found.detail or found.detail.isprintable()
    again = found.encode()
    end = heads.find_end(again)
    assert problem.decode(again[:end], again[end:]) == found


TARGETS: dict[str, Callable[[bytes], None]] = {
    "head": fuzz_request,
    "answer": fuzz_answer,
    "connect": fuzz_connect,
    "problem": fuzz_problem,
}


@pytest.mark.parametrize(("name", "data"), [(name, data) for name in TARGETS for data in corpus(name)])
def test_corpus(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_noise(name: str) -> None:
    fuzz(given(inputs(name))(TARGETS[name]))()


@fuzz
@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")))
def test_a_target_is_host_and_port_or_none(data: bytes) -> None:
    text = data.decode("latin-1")
    try:
        host, port = connect.split_authority(text)
    except BadHead:
        return
    assert connect.ConnectRequest(host, port).authority == text
