"""The two families of errors and the codes they carry."""

import pytest

from relay.protocol import errors
from relay.protocol.errors import GoAwayCode, LocalError, ProtocolError, RemoteError, describe_code


def test_codes_have_names() -> None:
    assert describe_code(0) == "normal"
    assert describe_code(0x746D_0001) == "token_revoked"
    assert describe_code(99) == "code 0x63"


def test_private_codes_stay_in_their_range() -> None:
    """A foreign implementation knows 0 to 2 (yamux specification); ours must not collide with a later one."""
    own = sorted(code for code in GoAwayCode if code > 2)
    assert own == list(range(0x746D_0001, 0x746D_0001 + len(own)))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RemoteError, 1),
        (errors.BadHead, 1),
        (errors.FloodError, GoAwayCode.FLOOD),
        (errors.KeepaliveTimeout, GoAwayCode.KEEPALIVE),
    ],
)
def test_a_remote_error_says_how_the_session_ends(error: type[RemoteError], code: int) -> None:
    assert error.code == code


def test_ours_and_the_peers_are_apart() -> None:
    assert not issubclass(LocalError, RemoteError)
    assert issubclass(LocalError, ProtocolError)
