"""From what a file, the environment or the command line gives to the value of a key; pure."""

from typing import Any

from tunnelmesh.common.secrets import redact
from tunnelmesh.conf.kinds import TEXT, Kind
from tunnelmesh.conf.yamltree import MappingNode, Node, ScalarNode, SequenceNode, tag


class Unfit(Exception):
    """A value that its key does not take; the text says what was found, but never a secret."""


def from_text(kind: Kind, text: str) -> Any:
    """A value as the environment and the command line write it: lists with commas, names with values as a=1,b=2."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if kind.shape == "list":
        return tuple(_read(kind, part) for part in parts)
    if kind.shape == "map":
        pairs = [part.partition("=") for part in parts]
        return {_read(kind, name): _read(kind, value) for name, _, value in pairs}
    return _read(kind, text)


def from_node(kind: Kind, node: Node) -> Any:
    """A value as the file writes it; its YAML type must be one that the kind takes."""
    if kind.shape == "list" and isinstance(node, SequenceNode):
        return tuple(_scalar(kind, item) for item in node.value)
    if kind.shape == "map" and isinstance(node, MappingNode):
        return {_scalar(kind, name): _scalar(kind, value) for name, value in node.value}
    if kind.shape != "one":
        raise Unfit("found a single value" if isinstance(node, ScalarNode) else "found the wrong shape")
    return _scalar(kind, node)


def _scalar(kind: Kind, node: Node) -> Any:
    if not isinstance(node, ScalarNode):
        raise Unfit("found a list" if isinstance(node, SequenceNode) else "found keys below it")
    if tag(node) in kind.tags:
        return _read(kind, node.value)
    advice = ", which YAML takes for no text: put it in quotes" if kind.tags == (TEXT,) else ""
    raise Unfit(f"found {_shown(kind, node.value)}{advice}")


def _read(kind: Kind, text: str) -> Any:
    try:
        return kind.read(text)
    except ValueError as error:
        reason = f" ({error})" if kind.secret and str(error) else ""
        raise Unfit(f"found {_shown(kind, text)}{reason}") from None


def _shown(kind: Kind, text: str) -> str:
    return "a value that is not shown" if kind.secret else repr(redact(text[:80]))


def as_shown(kind: Kind, value: Any) -> Any:
    """A value for people and JSON, secrets masked."""
    if value is None or isinstance(value, int | float):
        return value
    if kind.shape == "list":
        return [kind.show(item) for item in value]
    if kind.shape == "map":
        return {name: kind.show(item) for name, item in value.items()}
    return kind.show(value)
