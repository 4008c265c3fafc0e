"""The example files and the tables of keys, made from the schema: `python -m tunnelmesh.conf.reference` writes them."""

import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from tunnelmesh.conf.schema import AgentConfig, Section, ServerConfig, settings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {
    ROOT / "deploy/config/server.yaml": ServerConfig,
    ROOT / "deploy/config/agent.yaml": AgentConfig,
}
DOCUMENT = ROOT / "docs/configuration.md"
_WIDTH = 110
_HEAD = {
    ServerConfig: (
        "A Server node. Its place is /etc/tunnelmesh/server.yaml, owned by root, mode 0640, with the group of the "
        "service. Every key is here with its default, and a key that is left out has it too. The environment "
        "(TUNNELMESH_ and the path of the key, as in TUNNELMESH_SERVER_RELAY_LISTEN) wins over this file. After every "
        "change: tunnelmesh check_config"
    ),
    AgentConfig: (
        "An agent. Its place is /etc/tunnelmesh/agent.yaml, owned by root, mode 0640, with the group of the service. "
        "Every key is here: name, servers and token must be given, and pins or ca; the others show their defaults. The "
        "environment (TUNNELMESH_ and the key, as in TUNNELMESH_NAME) wins over this file. After every change: "
        "tunnelmesh check_config --agent"
    ),
}


def example(cls: type[Section]) -> str:
    """The file with every key of ``cls``, explained."""
    return "\n".join([*_comment(_HEAD[cls], ""), "", *_section(cls, "")]) + "\n"


def table(cls: type[Section]) -> str:
    """The keys of ``cls`` as a Markdown table."""
    rows = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for key, field in settings(cls):
        default = f"`{_default(field)}`" if _default(field) else "" if _has_default(field) else "must be given"
        cells = (f"`{key}`", default, field.metadata["kind"].allowed, field.metadata["doc"])
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def document(text: str) -> str:
    """``text`` of docs/configuration.md with its tables made anew."""
    for path, cls in EXAMPLES.items():
        begin, end = f"<!-- keys of {path.name} -->\n", f"<!-- end of {path.name} -->\n"
        before, rest = text.split(begin)
        text = f"{before}{begin}{table(cls)}{end}{rest.split(end)[1]}"
    return text


def _section(cls: type[Any], indent: str) -> Iterator[str]:
    for field in fields(cls):
        if "section" in field.metadata:
            yield from ("", *_comment(field.metadata["doc"], indent), f"{indent}{field.name}:")
            yield from _section(field.metadata["section"], f"{indent}  ")
        else:
            shown = field.metadata["example"] if not _has_default(field) else _default(field)
            yield from _comment(field.metadata["doc"], indent)
            if field.metadata["example"] and _has_default(field):
                yield f"{indent}# {field.name}: {field.metadata['example']}"
            yield f"{indent}{field.name}: {shown}".rstrip()


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _default(field: "Field[Any]") -> str:
    if field.default_factory is not MISSING:
        return "{}"
    if field.default in (MISSING, None):
        return ""
    return "[]" if field.default == () else field.metadata["kind"].show(field.default)


def main() -> None:
    for path, cls in EXAMPLES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(example(cls), encoding="utf-8")
    DOCUMENT.write_text(document(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
