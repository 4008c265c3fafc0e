"""Fixed field names, one line a record whatever a peer put into it."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from tunnelmesh.common.logging import JsonFormatter, configure


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers = handlers
    root.setLevel(level)


def test_json(stream: io.StringIO) -> None:
    configure("INFO", "json", stream=stream)
    logging.getLogger("a.b").debug("not shown")
    logging.getLogger("a.b").warning("two\nlines of %s", "\u202eevil", extra={"node": "server-a", "streams": 3})
    try:
        raise ValueError("x")
    except ValueError:
        logging.getLogger("c").exception("failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first == {
        "time": first["time"],
        "level": "WARNING",
        "logger": "a.b",
        "message": "two\nlines of \u202eevil",
        "node": "server-a",
        "streams": 3,
    }
    assert first["time"].endswith("+00:00")
    assert second["exception"].splitlines()[-1] == "ValueError: x"
    assert "\u202e" not in stream.getvalue()


def test_the_formatter_alone_gives_the_traceback_too() -> None:
    try:
        raise ValueError("x")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, __file__, 1, "failed", None, sys.exc_info())
    assert json.loads(JsonFormatter().format(record))["exception"].endswith("ValueError: x")


def test_an_extra_field_does_not_replace_a_fixed_one(stream: io.StringIO) -> None:
    configure("INFO", "json", stream=stream)
    logging.getLogger("a").info("real", extra={"level": "forged", "time": "forged", "logger": "forged"})
    line = json.loads(stream.getvalue())
    assert (line["level"], line["logger"], line["message"]) == ("INFO", "a", "real")


def test_text(stream: io.StringIO) -> None:
    configure("INFO", "text", stream=stream)
    name = 'x\n2026-01-01 CRITICAL forged\x1b[2J\u202e\u200b"節點'
    logging.getLogger("a").info("agent %s", name, extra={"node": "b\nc"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r'INFO a agent x\n2026-01-01 CRITICAL forged\x1b[2J\u202e\u200b"節點 node=b\nc')


def test_a_traceback_in_text_cannot_pass_for_a_record(stream: io.StringIO) -> None:
    configure("INFO", "text", stream=stream)
    try:
        raise ValueError("a\n2026-01-01 CRITICAL forged")
    except ValueError:
        logging.getLogger("a").exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR a failed")
    assert rest
    assert all(line.startswith("| ") for line in rest)


def test_configured_twice_a_line_comes_once(stream: io.StringIO) -> None:
    configure("INFO", "text", stream=stream)
    configure("ERROR", "text", stream=stream)
    logging.getLogger("a").info("no")
    logging.getLogger("a").error("yes")
    assert len(stream.getvalue().splitlines()) == 1


def test_standard_error_is_the_default(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", "text")
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr
