"""Log lines with fixed field names: JSON for machines, one plain line for people. Both mask secrets."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from tunnelmesh.common.secrets import RedactingFilter

LogFormat = Literal["json", "text"]
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


def _traceback(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    return "\n".join(part for part in (record.exc_text, record.stack_info) if part)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, the ``extra=`` fields under their own
    names, and ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        line = _extra(record)
        line |= {"time": _time(record), "level": record.levelname, "logger": record.name}
        line["message"] = record.getMessage()
        if text := _traceback(record, self):
            line["exception"] = text
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """``time level logger message name=value``. Whatever a peer put into it, a record stays one line; a traceback
    follows on lines that begin with ``|``."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _extra(record).items())
        line = _printable(f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{fields}")
        for below in _traceback(record, self).splitlines():
            line += f"\n| {_printable(below)}"
        return line


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def configure(level: str, fmt: LogFormat, *, stream: TextIO | None = None) -> None:
    """Make one handler, on standard error unless told, the only one of the root logger."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(RedactingFilter())
    handler.setFormatter(JsonFormatter() if fmt == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
