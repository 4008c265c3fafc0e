"""YAML text as a tree that knows the place of everything in it. Refuses what would make a place ambiguous."""

from collections.abc import Iterator
from itertools import chain

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, NodeEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tunnelmesh.common.errors import Invalid

__all__ = [
    "MAX_BYTES",
    "MappingNode",
    "Node",
    "ScalarNode",
    "SequenceNode",
    "compose",
    "decode",
    "get",
    "is_empty",
    "line",
    "tag",
]

MAX_BYTES = 128 * 1024  # a configuration has a few kilobytes; the parser needs seconds for a megabyte
MAX_DEPTH = 20
_HINT = "Mend the file; nothing was changed."


def decode(content: bytes, *, name: str) -> str:
    """The text of a configuration file, byte order mark included. Raises Invalid for what cannot be one."""
    if len(content) > MAX_BYTES:
        raise Invalid("bad_yaml", f"{name}: larger than {MAX_BYTES} bytes, so it is not a configuration", hint=_HINT)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid("bad_yaml", f"{name}: not UTF-8 at byte {error.start}", hint=_HINT) from None


def compose(text: str, *, name: str) -> Node | None:
    """The root node of the one document in ``text``; None if there is no content.

    Raises Invalid (`bad_yaml`, naming file and line) for anything that is not YAML, for several documents, aliases,
    merge keys and keys that stand twice in one mapping.
    """
    try:
        _refuse_odd_structure(text, name=name)
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as error:
        raise _refusal(name, _mark_line(error), f"no valid YAML ({_what(error)})") from None
    for mapping in _mappings(root):
        _refuse_odd_keys(mapping, name=name)
    return root


def get(mapping: MappingNode, key: str) -> tuple[ScalarNode, Node] | None:
    """The key and value nodes of ``key``."""
    return next((pair for pair in mapping.value if pair[0].value == key), None)


def line(node: Node) -> int:
    """The line of ``node``, from 1."""
    return int(node.start_mark.line) + 1


def tag(node: Node) -> str:
    """The short name of the node's type: str, int, float, bool, null, map, seq or another."""
    return str(node.tag).removeprefix("tag:yaml.org,2002:")


def is_empty(node: Node) -> bool:
    """Whether ``node`` says nothing: null in any spelling, or an empty text."""
    return isinstance(node, ScalarNode) and (tag(node) == "null" or node.value == "")


def _refuse_odd_structure(text: str, *, name: str) -> None:
    """Before anything is built: deep nesting and aliases cost a parser far more than they cost their author."""
    depth = 0
    anchors: set[str] = set()
    for event in YAML(typ="safe", pure=True).parse(text):
        line_number = event.start_mark.line + 1
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _refusal(name, line_number, f"more than {MAX_DEPTH} levels")
        if isinstance(event, AliasEvent):
            raise _refusal(name, line_number, "an alias (*name); write the value out instead")
        if isinstance(event, NodeEvent) and event.anchor:
            if event.anchor in anchors:
                raise _refusal(name, line_number, "an anchor (&name) a second time")
            anchors.add(event.anchor)


def _mappings(node: Node | None) -> Iterator[MappingNode]:
    if isinstance(node, MappingNode):
        yield node
        for child in chain.from_iterable(node.value):
            yield from _mappings(child)
    elif isinstance(node, SequenceNode):
        for child in node.value:
            yield from _mappings(child)


def _refuse_odd_keys(mapping: MappingNode, *, name: str) -> None:
    seen: dict[str, int] = {}
    for key, _ in mapping.value:
        if not isinstance(key, ScalarNode):
            raise _refusal(name, line(key), "a key that is not plain text")
        if tag(key) == "merge":
            raise _refusal(name, line(key), "a merge key (<<); write the keys out instead")
        if key.value in seen:
            raise _refusal(
                name, line(key), f"the key {key.value!r} a second time; it stands in line {seen[key.value]} too"
            )
        seen[key.value] = line(key)


def _mark_line(error: YAMLError) -> int:
    mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
    return int(mark.line) + 1 if mark else 1


def _what(error: YAMLError) -> str:
    """The parser's own words, without its excerpt of the file: that may hold a secret."""
    if isinstance(error, MarkedYAMLError):
        return ", ".join(part.split("\n")[0] for part in (error.context, error.problem) if part)
    return "a character that YAML does not allow"


def _refusal(name: str, number: int, found: str) -> Invalid:
    return Invalid("bad_yaml", f"{name}:{number}: found {found}", hint=_HINT)
