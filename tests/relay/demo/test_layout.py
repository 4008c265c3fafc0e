import socket

import pytest

from relay.demo import ports
from relay.demo.layout import Layout, ports_needed
from relay.demo.ports import Reservation, free_ports, is_free
from relay.demo.shape import Agent, Entry, Shape, one_node, two_nodes


def test_every_listener_has_a_port_of_its_own() -> None:
    shape = two_nodes(console=True)
    layout = Layout.of(shape, range(ports_needed(shape)))
    given = [layout.service, layout.console, *layout.entries.values()]
    for node in layout.nodes.values():
        given += [node.relay, node.agents, node.admin]
    assert sorted(given) == list(range(9))


def test_target_is_the_service_or_what_the_entry_says() -> None:
    layout = Layout.of(two_nodes(), range(9))
    assert layout.target(two_nodes().entries[0]) == f"127.0.0.1:{layout.service}"
    assert layout.target(two_nodes(target="10.0.0.1:80").entries[0]) == "10.0.0.1:80"


@pytest.mark.parametrize(
    ("shape", "has_service"),
    [
        (two_nodes(), True),
        (one_node(), True),
        (one_node(target="127.0.0.1:1"), False),
        (
            Shape(
                nodes=("n",), agents=(Agent("a", ("n",)),), entries=(Entry("e", "n", "a", "x:1"), Entry("f", "n", "a"))
            ),
            True,
        ),
    ],
)
def test_service_runs_only_where_an_entry_leads_to_it(shape: Shape, has_service: bool) -> None:
    assert shape.has_service is has_service


def test_taken_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not is_free(taken.getsockname()[1])


def test_ports_are_outside_the_range_of_outgoing_connections() -> None:
    assert all(port < 32_768 for port in free_ports(20))


def test_ports_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_CANDIDATES", range(20_000, 20_003))
    with pytest.raises(OSError, match=r"fewer than 4 free ports on 127\.0\.0\.1 from 20000 to 20002"):
        free_ports(4)


def test_reserved_port_is_for_its_owner_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are not told it; whoever was told may listen on it, leave it, and come back."""
    first = Reservation(1)
    (port,) = first.ports
    monkeypatch.setattr(ports, "_CANDIDATES", range(port, port + 1))
    with pytest.raises(OSError, match="fewer than"):
        Reservation(1)
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port)):
            listener.accept()[0].close()
    assert is_free(port)
    first.release()
