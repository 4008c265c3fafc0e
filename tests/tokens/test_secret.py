"""tokens.secret: 256 random bits in a form that scanners find, stored as a digest, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokens import secret as form
from tunnelmesh.common.secrets import Secret, redact

PREFIXES = ("tmn_", "tma_", "tmc_", "tmd_")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_text_form(prefix: str) -> None:
    text = form.generate(prefix, secrets.token_bytes).reveal()
    assert text.startswith(prefix)
    assert len(text) == 4 + 43 + 6
    assert text[4:].isalnum()
    assert text.isascii()


@given(st.binary(min_size=32, max_size=32), st.sampled_from(PREFIXES))
def test_what_is_generated_is_well_formed_and_masked(noise: bytes, prefix: str) -> None:
    secret = form.generate(prefix, lambda _: noise)
    assert form.is_well_formed(secret)
    assert secret.reveal() not in redact(f"log: {secret.reveal()}")


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_all_256_bits_count(one: bytes, other: bytes) -> None:
    same = form.generate("tmn_", lambda _: one) == form.generate("tmn_", lambda _: other)
    assert same == (one == other)


def test_the_extremes_fit() -> None:
    least, most = (form.generate("tmn_", lambda _, b=byte: b * 32) for byte in (b"\x00", b"\xff"))
    assert least.reveal().startswith("tmn_" + "0" * 43)
    assert form.is_well_formed(least)
    assert form.is_well_formed(most)


def test_it_asks_for_32_bytes() -> None:
    asked: list[int] = []

    def source(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    form.generate("tmn_", source)
    assert asked == [32]


@pytest.mark.parametrize("position", range(53))
def test_one_wrong_character_is_noticed(position: int) -> None:
    text = form.generate("tmn_", lambda size: bytes(range(size))).reveal()
    wrong = "z" if text[position] != "z" else "y"
    assert not form.is_well_formed(Secret(text[:position] + wrong + text[position + 1 :]))


@pytest.mark.parametrize("text", ["", "tmn_", "tmx_" + "0" * 49, "tmn_" + "0" * 48, "tmn_" + "0" * 49 + "\n", "ü" * 53])
def test_what_is_no_token(text: str) -> None:
    assert not form.is_well_formed(Secret(text))


def test_a_known_token() -> None:
    """The text form never changes: the v7 fixture and every issued token stand on it."""
    secret = form.generate("tmn_", lambda size: b"\x07" * size)
    assert secret.reveal() == "tmn_" + "1fJjkkpe9PiTw9KSulA8Ghct30vZz4HpdQ5c5b9cPF112M6WJ"
    assert form.digest(secret) == hashlib.sha256(secret.reveal().encode()).hexdigest()


def test_the_hint_is_short_of_what_a_canary_scan_looks_for() -> None:
    secret = form.generate("tmn_", secrets.token_bytes)
    assert form.hint(secret) == secret.reveal()[:8]


@pytest.mark.parametrize("text", ["", "ü", "\udc80", "x" * 100_000])
def test_any_text_has_a_digest(text: str) -> None:
    assert len(form.digest(Secret(text))) == 64


def test_digests_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def spy(one: bytes, other: bytes) -> bool:
        calls.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    assert form.same_digest("ab", "ab")
    assert not form.same_digest("ab", "ac")
    assert len(calls) == 2
