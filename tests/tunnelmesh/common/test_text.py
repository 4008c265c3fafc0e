"""tunnelmesh.common.text: names that cannot reorder a page or break a log line (R33)."""

from __future__ import annotations

import pytest

from tunnelmesh.common.errors import Invalid
from tunnelmesh.common.text import check_name


@pytest.mark.parametrize("text", ["a", "Relay 1", "机房 <b>", "é" * 191, "a'b\"c;--"])
def test_good_names_come_back_unchanged(text: str) -> None:
    assert check_name(text) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "empty"),
        (" a", "space"),
        ("a\u00a0", "space"),
        ("a" * 192, "192"),
        ("a\nb", "U+000A"),
        ("a\x7fb", "U+007F"),
        ("a\u200bb", "U+200B"),
        ("a\u202eb", "U+202E"),
        ("a\u2028b", "U+2028"),
        ("a\u2029b", "U+2029"),
        ("a\ud800b", "U+D800"),
        ("a\ue000b", "U+E000"),
    ],
)
def test_bad_names_say_what_was_found(text: str, found: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_name(text, field="label")
    assert caught.value.code == "bad_name"
    assert found in caught.value.message
    assert "label" in caught.value.message
