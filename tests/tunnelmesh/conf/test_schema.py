"""What the sections say beyond their values."""

import pytest

from tunnelmesh.conf.schema import Address, RelaySection


@pytest.mark.parametrize(
    ("listen", "endpoint", "advertised"),
    [
        ("10.0.0.1:9443", None, "10.0.0.1:9443"),
        ("10.0.0.1:9443", "node-a.internal:443", "node-a.internal:443"),
        ("0.0.0.0:9443", "node-a.internal:443", "node-a.internal:443"),
        ("0.0.0.0:9443", None, None),
        ("[::]:9443", None, None),
        ("127.0.0.1:0", None, None),
    ],
)
def test_what_other_nodes_dial(listen: str, endpoint: str | None, advertised: str | None) -> None:
    relay = RelaySection(listen=Address.parse(listen), endpoint=Address.parse(endpoint) if endpoint else None)
    assert (str(relay.advertised) if relay.advertised else None) == advertised
