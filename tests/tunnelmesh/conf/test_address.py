"""Addresses: what is read, what is refused, and that writing gives back what was read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunnelmesh.conf.address import Address

GOOD = {
    "127.0.0.1:8000": Address("127.0.0.1", 8000),
    "[::1]:7443": Address("::1", 7443),
    "[fe80::1]:65535": Address("fe80::1", 65535),
    "node-a.internal:9443": Address("node-a.internal", 9443),
    "localhost:0": Address("localhost", 0),
    "xn--bcher-kva.example:1": Address("xn--bcher-kva.example", 1),
    "a_b:1": Address("a_b", 1),
    f"{'a' * 63}:1": Address("a" * 63, 1),
}
BAD = [
    *["", ":", "a", "a:", ":1", "a:b", "a:-1", "a:65536", "a:123456", "a:1 ", " a:1", "a b:1", "a:１", "a:1\n"],
    *["::1:1", "[::1]", "[::1]:", "[]:1", "[a]:1", "[127.0.0.1:1", "[fe80::1%eth0]:1", "1.2.3:4", "1.2.3.4.5:1"],
    *["256.1.1.1:1", "http://a:1", "u@a:1", "a/b:1", "-a:1", "a-:1", "a..b:1", ".a:1", "a.:1", "*:1"],
    *[f"{'a.' * 126}aa:1", f"{'a' * 64}:1", f"a.{'a' * 64}.a:1"],
]


@pytest.mark.parametrize(("text", "address"), list(GOOD.items()))
def test_read_and_written(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", BAD)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the caller makes the message
        Address.parse(text)


@given(st.text(max_size=30) | st.from_regex(r"[\[\]0-9a-f:.]{1,20}:[0-9]{1,5}", fullmatch=True))
def test_whatever_is_read_is_written_the_same(text: str) -> None:
    try:
        address = Address.parse(text)
    except ValueError:
        return
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    ("host", "loopback", "wildcard"),
    [
        ("127.0.0.1", True, False),
        ("127.9.9.9", True, False),
        ("::1", True, False),
        ("localhost", True, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("10.0.0.1", False, False),
        ("node-a", False, False),
    ],
)
def test_who_can_reach_it(host: str, loopback: bool, wildcard: bool) -> None:
    address = Address(host, 1)
    assert (address.is_loopback, address.is_wildcard) == (loopback, wildcard)
