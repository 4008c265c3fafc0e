import socket

import pytest

from relay.demo.layout import Layout
from relay.demo.ports import free_ports, is_free
from relay.demo.shape import Agent, Entry, Shape, one_node, two_nodes


def test_every_listener_has_a_port_of_its_own() -> None:
    layout = Layout.choose(two_nodes(console=True))
    ports = [layout.service, layout.console, *layout.entries.values()]
    for node in layout.nodes.values():
        ports += [node.relay, node.agents, node.admin]
    assert len(set(ports)) == len(ports) == 9


def test_target_is_the_service_or_what_the_entry_says() -> None:
    layout = Layout.choose(two_nodes())
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
    with pytest.raises(OSError, match="fewer than"):
        free_ports(20_000)
