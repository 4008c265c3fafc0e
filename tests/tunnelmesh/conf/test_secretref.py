"""T2: literal, environment, file, store; read when needed, shown never."""

import logging
from pathlib import Path

import pytest

from tunnelmesh.common.errors import DomainError, Invalid, NotFound, Refused
from tunnelmesh.common.secrets import Secret
from tunnelmesh.conf.secretref import Kind, SecretRef

CANARY = "tmn_CanaryCanaryCanaryCanaryCanaryCanaryCanary1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{CANARY}\n")
    path.chmod(0o640)
    return path


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        (CANARY, Kind.LITERAL, "********"),
        ("a:b", Kind.LITERAL, "********"),
        ("env:RELAY_TOKEN", Kind.ENV, "env:RELAY_TOKEN"),
        ("file:/etc/tunnelmesh/node-token", Kind.FILE, "file:/etc/tunnelmesh/node-token"),
        ("store:nodes/a#token", Kind.STORE, "store:nodes/a#token"),
    ],
)
def test_what_is_read_and_shown(text: str, kind: Kind, shown: str) -> None:
    ref = SecretRef.parse(text)
    assert (ref.kind, str(ref)) == (kind, shown)
    assert CANARY not in repr(ref)


@pytest.mark.parametrize(
    "text", ["env:", "env:A-B", "env:9", "file:", "file:relative", "file:/a\nb", "store:a", "store:#f"]
)
def test_malformed_references_are_told_the_form(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text.partition(':')[0]}: needs"):
        SecretRef.parse(text)


@pytest.mark.parametrize("text", ["", "two words", f"{CANARY}\n", f"{CANARY} ", f"{CANARY}ö"])
def test_malformed_literals_are_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="the literal secret") as error:
        SecretRef.parse(text)
    assert CANARY not in str(error.value)


def test_a_literal() -> None:
    assert SecretRef.parse(CANARY).resolve() == Secret(CANARY)


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = SecretRef.parse("env:RELAY_TOKEN")
    assert ref.resolve({"RELAY_TOKEN": CANARY}) == Secret(CANARY)
    for environ in ({}, {"RELAY_TOKEN": ""}):
        with pytest.raises(NotFound, match="RELAY_TOKEN is not set"):
            ref.resolve(environ)
    monkeypatch.setenv("RELAY_TOKEN", CANARY)
    assert ref.resolve() == Secret(CANARY)


@pytest.mark.parametrize("content", [CANARY, f"{CANARY}\n", f"{CANARY}\r\n"])
def test_from_a_file_less_one_line_break(file: Path, content: str) -> None:
    file.write_bytes(content.encode())
    assert SecretRef.parse(f"file:{file}").resolve().reveal() == CANARY


def test_a_file_is_read_each_time(file: Path) -> None:
    ref = SecretRef.parse(f"file:{file}")
    ref.resolve()
    file.write_text("renewed")
    assert ref.resolve().reveal() == "renewed"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (f"{CANARY}\n\n".encode(), "holds a space, a line break"),
        (f"{CANARY}\n{CANARY}".encode(), "holds a space, a line break"),
        (f"X-Header: {CANARY}".encode(), "holds a space"),
        (b"\xff\xfe", "non-ASCII"),
        (b"x" * 70_000, "larger than 65536 bytes"),
    ],
)
def test_a_file_that_holds_no_token(file: Path, content: bytes, found: str) -> None:
    file.write_bytes(content)
    with pytest.raises(Invalid, match=found) as error:
        SecretRef.parse(f"file:{file}").resolve()
    assert CANARY not in str(error.value)
    assert str(file) in error.value.message


def test_a_file_that_cannot_be_read(file: Path) -> None:
    for path in (file.with_name("none"), file.parent):
        with pytest.raises(NotFound, match="cannot be read") as error:
            SecretRef.parse(f"file:{path}").resolve()
        assert error.value.hint == f"Look at it: ls -lL {path}"


def test_a_file_open_to_everyone_warns(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    ref = SecretRef.parse(f"file:{file}")
    with caplog.at_level(logging.WARNING):
        ref.resolve()
        assert caplog.text == ""
        file.chmod(0o644)
        ref.resolve()
    assert f"chmod o= {file}" in caplog.text
    assert CANARY not in caplog.text


def test_the_store_is_refused_until_there_is_one() -> None:
    with pytest.raises(Refused, match="no credential store") as error:
        SecretRef.parse("store:nodes/a#token").resolve()
    assert isinstance(error.value, DomainError)
    assert "file:/path" in error.value.hint
