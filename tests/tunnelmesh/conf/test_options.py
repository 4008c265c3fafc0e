"""Which file a command reads."""

import argparse
from pathlib import Path

import pytest

from tunnelmesh.common.errors import NotFound
from tunnelmesh.conf import options


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TUNNELMESH_CONFIG", "TUNNELMESH_NODE_ID"):
        monkeypatch.delenv(name, raising=False)


def parsed(*arguments: str, agent: bool = False) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    (options.add_agent_options if agent else options.add_server_options)(parser)
    return vars(parser.parse_args(arguments))


def test_the_option_wins_over_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"node: {{id: {name}}}\n")
    monkeypatch.setenv("TUNNELMESH_CONFIG", str(tmp_path / "b"))
    assert options.server_config(parsed("--config", str(tmp_path / "a"))).value.node.id == "a"
    assert options.server_config(parsed()).value.node.id == "b"


def test_the_packaged_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (str(options.SERVER_FILE), str(options.AGENT_FILE)) == (
        "/etc/tunnelmesh/server.yaml",
        "/etc/tunnelmesh/agent.yaml",
    )
    monkeypatch.setattr(options, "SERVER_FILE", tmp_path / "server.yaml")
    monkeypatch.setattr(options, "AGENT_FILE", tmp_path / "agent.yaml")
    with pytest.raises(NotFound, match=r"server\.yaml"):
        options.server_config(parsed())
    with pytest.raises(NotFound, match=r"agent\.yaml"):
        options.agent_config(parsed(agent=True))


def test_a_relative_path_is_named_in_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert options.server_config(parsed("--config", "a.yaml")).path == tmp_path / "a.yaml"


def test_node_id_comes_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    loaded = options.server_config(parsed("--config", str(tmp_path / "a.yaml"), "--node-id", "mine"))
    assert (loaded.value.node.id, loaded.sources["node.id"]) == ("mine", "command line")
