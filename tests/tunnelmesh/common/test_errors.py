"""Codes for machines, texts for people, the next step."""

import pytest

from tunnelmesh.common.errors import Conflict, DomainError, ExitCode, Invalid, NotFound, Refused


@pytest.mark.parametrize("kind", [Invalid, Conflict, NotFound, Refused])
def test_text_and_code(kind: type[DomainError]) -> None:
    error = kind("some_code", "What was found.", hint="Run: this")
    assert isinstance(error, DomainError)
    assert (error.code, error.message, error.hint) == ("some_code", "What was found.", "Run: this")
    assert str(error) == "What was found.\nRun: this"
    assert str(kind("some_code", "What was found.")) == "What was found."


def test_exit_codes_are_those_of_the_design() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 2,
        "REFUSED_CONFIG": 3,
        "IDENTITY_CONFLICT": 4,
        "REFUSED_BY_FLEET": 5,
        "INTERRUPTED": 130,
    }
