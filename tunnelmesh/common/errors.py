"""Domain errors with stable machine codes, and the exit codes of the commands (design.md, section 7)."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command tells its caller (a shell, systemd) about how it ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED_CONFIG = 3
    IDENTITY_CONFLICT = 4
    REFUSED_BY_FLEET = 5
    INTERRUPTED = 130


class DomainError(Exception):
    """A refusal that its caller can act on: a stable ``code``, a text for people and the next step in ``hint``."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class Invalid(DomainError):
    """The value itself is wrong, whatever the state."""


class Conflict(DomainError):
    """The value is right, but not in this state."""


class NotFound(DomainError):
    """It does not exist, or the caller may not see it."""


class Refused(DomainError):
    """It exists and was judged: no."""
