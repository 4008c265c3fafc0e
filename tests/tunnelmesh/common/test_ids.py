"""The grammar of ids, at its edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunnelmesh.common.errors import Invalid
from tunnelmesh.common.ids import check_node_id, generate_node_id, is_agent_id, is_node_id

GOOD = ["a", "0", "a-b", "a--b", "server-a", "a" * 63, "server-" + "0" * 32]
BAD = ["", "-", "-a", "a-", "A", "a" * 64, "a.b", "a_b", "a b", " a", "a\n", "a\x00", "ä", "a/b", "＆", "١"]


@pytest.mark.parametrize("text", GOOD)
def test_good(text: str) -> None:
    assert is_node_id(text)
    assert is_agent_id(text)
    assert check_node_id(text) is text


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str) -> None:
    assert not is_node_id(text)
    with pytest.raises(Invalid) as error:
        check_node_id(text)
    assert error.value.code == "bad_node_id"
    assert str(error.value).isascii()


def test_a_long_one_is_not_echoed_in_full() -> None:
    with pytest.raises(Invalid) as error:
        check_node_id("x" * 10_000)
    assert len(str(error.value)) < 300


@given(st.binary(min_size=16, max_size=16))
def test_whatever_the_random_bytes_the_id_is_one(random: bytes) -> None:
    node_id = generate_node_id(lambda count: random[:count])
    assert is_node_id(node_id)
    assert node_id == "server-" + random.hex()
