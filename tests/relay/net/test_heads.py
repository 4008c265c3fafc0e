"""The beginning of a stream, byte by byte and all at once."""

import asyncio

import pytest

from relay.net.channel import Channel
from relay.net.engine import Engine
from relay.protocol import connect, heads, problem
from relay.protocol.connect import OK
from relay.protocol.problem import Problem
from tests.support.loopback import TARGET, Contexts, End, Recorder, joined, until

BUSY = Problem(503, "busy", "later", retry_after=1)


@pytest.fixture
async def ends(engine: Engine, contexts: Contexts) -> tuple[End, End]:
    return await joined(engine, contexts)


async def say(channel: Channel, data: bytes, piece: int) -> None:
    """Send in pieces, each with a frame of its own."""
    for start in range(0, len(data), piece):
        channel.send_bytes(data[start : start + piece])
        channel.mux.engine.settle()
        await asyncio.sleep(0)


@pytest.mark.parametrize("piece", [1, 7, 10_000])
class TestRequest:
    async def test_what_follows_is_held_and_its_credit_kept(self, ends: tuple[End, End], piece: int) -> None:
        channel = ends[0].mux._channel()
        await say(channel, TARGET.encode() + b"behind", piece)
        incoming, request = await ends[1].streams.get()
        assert request == TARGET
        await until(lambda: incoming.queued == 6)
        window = incoming.stream.receive_window
        assert window.size - window.credit - window.unreturned == 6
        recorder = Recorder(incoming)
        assert recorder.received == b"behind"
        assert window.size == window.credit + window.unreturned


@pytest.mark.parametrize("piece", [1, 7, 10_000])
class TestAnswer:
    async def answered(self, ends: tuple[End, End], answer: bytes, piece: int, *, finish: bool = False) -> object:
        opening = asyncio.create_task(ends[0].open())
        channel, _ = await ends[1].streams.get()
        await say(channel, answer, piece)
        if finish:
            channel.finish()
            channel.mux.engine.settle()
        return await opening

    async def test_accepted(self, ends: tuple[End, End], piece: int) -> None:
        channel = await self.answered(ends, OK + b"first bytes", piece)
        assert isinstance(channel, Channel)
        recorder = Recorder(channel)
        await until(lambda: recorder.received == b"first bytes")

    async def test_accepted_in_other_words(self, ends: tuple[End, End], piece: int) -> None:
        """Any 2xx is a yes (RFC 9110, section 9.3.6)."""
        answer = b"HTTP/1.1 201 Fine with me\r\nServer: another\r\n\r\n"
        assert isinstance(await self.answered(ends, answer + b"x", piece), Channel)

    async def test_refused(self, ends: tuple[End, End], piece: int) -> None:
        assert await self.answered(ends, BUSY.encode(), piece) == BUSY

    async def test_refused_with_half_a_reason(self, ends: tuple[End, End], piece: int) -> None:
        """Its end is the end of the wait."""
        problem = await self.answered(ends, BUSY.encode()[:-5], piece, finish=True)
        assert isinstance(problem, Problem)
        assert (problem.status, problem.code) == (503, "refused")

    @pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200\r\n\r\n"])
    async def test_nonsense(self, ends: tuple[End, End], answer: bytes, piece: int) -> None:
        problem = await self.answered(ends, answer, piece)
        assert isinstance(problem, Problem)
        assert problem.code == "bad_answer"

    async def test_an_end_without_an_answer(self, ends: tuple[End, End], piece: int) -> None:
        problem = await self.answered(ends, OK[:-1], piece, finish=True)
        assert isinstance(problem, Problem)
        assert problem.code == "reset"


async def test_an_answer_without_an_end(ends: tuple[End, End]) -> None:
    opening = asyncio.create_task(ends[0].open())
    channel, _ = await ends[1].streams.get()
    await say(channel, b"x" * 20_000, 1000)
    problem = await opening
    assert isinstance(problem, Problem)
    assert problem.code == "bad_answer"


async def test_a_refusal_is_parsed_a_bounded_number_of_times(
    ends: tuple[End, End], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the pieces are in which its body comes: the parser reads up to 16 KiB each time."""
    parsed: list[int] = []
    parse = heads.parse_response

    def count(head: bytes | bytearray) -> heads.ResponseHead:
        parsed.append(len(head))
        return parse(head)

    for module in (connect, problem):
        monkeypatch.setattr(module, "parse_response", count)
    opening = asyncio.create_task(ends[0].open())
    channel, _ = await ends[1].streams.get()
    await say(channel, BUSY.encode(), 1)
    assert await opening == BUSY
    assert len(parsed) < 5


async def test_an_answer_is_given_once(ends: tuple[End, End]) -> None:
    """Whatever else comes for the stream."""
    answers: list[Channel | Problem] = []
    ends[0].mux.open(TARGET, answers.append, 5)
    ends[0].mux.engine.settle()
    channel, _ = await ends[1].streams.get()
    channel.send_bytes(BUSY.encode() + BUSY.encode())
    channel.finish()
    channel.reset()
    ends[1].mux.engine.settle()
    await until(lambda: bool(answers))
    ends[1].mux.connection.abort()
    await ends[0].over
    assert answers == [BUSY]


async def test_refusing_what_has_gone(ends: tuple[End, End]) -> None:
    """A channel may outlive its stream; then its methods do nothing."""
    opening = asyncio.create_task(ends[0].open(seconds=0))
    channel, _ = await ends[1].streams.get()
    ends[0].mux.on_tick(ends[0].mux.engine.now())
    ends[0].mux.engine.settle()
    assert isinstance(await opening, Problem)
    await until(lambda: not channel.stream.open)
    channel.accept()
    channel.refuse(BUSY)
    channel.finish()
    channel.reset()
    channel.consumed(5)
    channel.resume()
    assert not channel.queued
    assert not ends[1].mux.closed
