"""The example files and the tables of keys equal the schema, and what they show as a default is one."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tunnelmesh.conf import reference
from tunnelmesh.conf.load import load_agent_config, load_server_config
from tunnelmesh.conf.schema import AgentConfig, Section, ServerConfig, settings
from tunnelmesh.conf.yamlfile import write_node_id

SERVER, AGENT = reference.EXAMPLES
REQUIRED = {"name", "servers", "token"}
PINS = {"TUNNELMESH_PINS": f"sha256:{'0' * 64}"}


def keys(tree: dict[str, Any], known: set[str], prefix: str = "") -> set[str]:
    """The dotted keys of a file; what lies below a key of the schema is its value."""
    found = set()
    for name, value in tree.items():
        key = f"{prefix}{name}"
        found |= {key} if key in known else keys(value, known, f"{key}.")
    return found


@pytest.mark.parametrize(
    ("path", "cls"), list(reference.EXAMPLES.items()), ids=lambda value: getattr(value, "name", "")
)
class TestExamples:
    def test_every_key_and_no_other(self, path: Path, cls: type[Section]) -> None:
        known = {key for key, _ in settings(cls)}
        assert keys(YAML(typ="safe").load(path), known) == known

    def test_every_key_is_explained(self, path: Path, cls: type[Section]) -> None:
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            assert not line.strip() or line.lstrip().startswith("#") or lines[number - 1].lstrip().startswith("#")

    def test_made_from_the_schema(self, path: Path, cls: type[Section]) -> None:
        assert path.read_text() == reference.example(cls), "run: python -m tunnelmesh.conf.reference"


def test_the_shown_defaults_of_a_server_are_the_defaults() -> None:
    loaded = load_server_config(SERVER, environ={})
    assert loaded.value == ServerConfig()
    shown = {key for key, source in loaded.sources.items() if source != "default"}
    assert {key for key, field in settings(ServerConfig) if field.default is not None} == shown


def test_the_shown_defaults_of_an_agent_are_the_defaults() -> None:
    loaded = load_agent_config(AGENT, environ=PINS)
    given = {name: getattr(loaded.value, name) for name in REQUIRED | {"pins"}}
    assert loaded.value == AgentConfig(**given)
    assert {
        key for key, field in settings(AgentConfig) if "." not in key and not reference._has_default(field)
    } == REQUIRED


@pytest.mark.parametrize("cls", [ServerConfig, AgentConfig])
def test_every_shown_example_is_allowed(cls: type[Section], tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    lines = []
    for line in reference.example(cls).splitlines():
        for key, field in settings(cls):
            example = f"# {key.rpartition('.')[2]}: {field.metadata['example']}"
            if field.metadata["example"] and line.strip() == example:
                lines.append(line.replace("# ", "", 1))
                break
        else:
            keep = not lines or lines[-1].partition(":")[0] != line.partition(":")[0]
            lines += [line] * keep
    path.write_text("\n".join(lines))
    load = load_server_config if cls is ServerConfig else load_agent_config
    sources = load(path, environ={}).sources
    assert {key for key, field in settings(cls) if field.metadata["example"] and sources[key] == "default"} == set()


def test_the_writer_fills_the_packaged_file(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text(SERVER.read_text())
    write_node_id(path, "server-a")
    assert path.read_text() == SERVER.read_text().replace("\n  id:\n", "\n  id: server-a\n")


def test_the_document() -> None:
    text = reference.DOCUMENT.read_text()
    assert text == reference.document(text), "run: python -m tunnelmesh.conf.reference"


def test_rewriting_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = {tmp_path / "new" / path.name: cls for path, cls in reference.EXAMPLES.items()}
    document = tmp_path / "configuration.md"
    document.write_text(reference.DOCUMENT.read_text().replace("`mode`", "`gone`"))
    monkeypatch.setattr(reference, "EXAMPLES", moved)
    monkeypatch.setattr(reference, "DOCUMENT", document)
    reference.main()
    assert document.read_text() == reference.DOCUMENT.read_text() == text_of_document()
    assert [path.read_text() for path in moved] == [SERVER.read_text(), AGENT.read_text()]


def text_of_document() -> str:
    return (reference.ROOT / "docs" / "configuration.md").read_text()


def test_no_key_is_without_a_reader() -> None:
    """Such a key would be a promise that nobody keeps. Metadata says of itself that it is not shown yet; the endpoint
    is read as `advertised`."""
    sources = [
        path
        for package in ("relay", "nodes", "tokens", "tunnelmesh/settings")
        for path in (reference.ROOT / package).rglob("*.py")
    ]
    text = "\n".join(path.read_text() for path in sources)
    names = {key.rpartition(".")[2] for cls in (ServerConfig, AgentConfig) for key, _ in settings(cls)}
    assert {name for name in names if f".{name}" not in text} <= {"endpoint", "metadata"}


def test_sections_compare_and_print() -> None:
    assert asdict(ServerConfig())["server"]["limits"]["drain"] == 30.0
    assert "sqlite" not in repr(ServerConfig())
