"""The files that the demo writes are read by the product's own loader, and say what was meant."""

from pathlib import Path

from relay.demo.certificates import ensure_certificates
from relay.demo.config import write_configs
from relay.demo.folder import Folder
from relay.demo.layout import Layout, ports_needed
from relay.demo.ports import free_ports
from relay.demo.shape import two_nodes
from tunnelmesh.conf.load import load_agent_config, load_server_config


def test_files_are_valid_configuration(tmp_path: Path) -> None:
    folder, shape = Folder(tmp_path / "a folder: with #signs"), two_nodes()
    layout = Layout.of(shape, free_ports(ports_needed(shape)))
    pins = ensure_certificates(folder.path / "pki", shape.nodes).pins
    folder.secret("node-token")
    folder.secret("agent-1")
    write_configs(shape, layout, folder=folder, pins=pins)

    node = load_server_config(folder.path / "node-b.yaml", environ={}).value
    assert (node.mode, node.node.id) == ("cluster", "node-b")
    assert node.database.url.startswith("sqlite:////")
    assert node.server.relay.listen.port == layout.nodes["node-b"].relay
    assert str(node.server.relay.advertised) == str(node.server.relay.listen)
    assert node.server.relay.node_token is not None
    assert node.server.relay.node_token.resolve().reveal() == folder.secret("node-token")
    assert node.server.agents.cert == folder.path / "pki" / "node-b-agents.pem"

    agent = load_agent_config(folder.path / "agent-1.yaml", environ={}).value
    assert agent.name == "agent-1"
    assert [server.port for server in agent.servers] == [layout.nodes["node-b"].agents]
    assert agent.pins == (pins["node-b"],)
    assert agent.token.resolve().reveal() == folder.secret("agent-1")
    assert agent.allow == (f"127.0.0.1:{layout.service}",)
    folder.close()
