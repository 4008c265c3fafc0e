"""Puts a node id into the text of a YAML file and changes nothing else (F16); pure.

The parser only finds the place. The text is spliced there, parsed again, and must say what it said before, plus the id.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tunnelmesh.common.errors import Invalid, Refused
from tunnelmesh.conf.yamltree import MappingNode, Node, ScalarNode, SequenceNode, compose, get, is_empty, tag

_COLON = re.compile(r"[ \t]*:")
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\r\n]*)?(\r\n|\r|\n|\Z)")
_BREAK = re.compile(r"\r\n|\r|\n")
_DOCUMENT_END = re.compile(r"^\.\.\.(?=\s|\Z)", re.MULTILINE)
_SURELY_TEXT = re.compile(r"[a-z][a-z0-9]*-[a-z0-9-]*")  # no number, truth value or null has this form

_Pair = tuple[ScalarNode, Node]


class _Splice(NamedTuple):
    """Replace ``text[start:end]`` by ``piece``."""

    start: int
    end: int
    piece: str


def explicit_id(text: str, *, name: str) -> str | None:
    """The identity that the file states, or "" for one that is no text; None when `node.id` is absent or empty.

    Raises what ``compose`` raises; ``name`` is the file's, for the error.
    """
    return _id_of(compose(text, name=name))


def with_id(text: str, node_id: str, *, name: str) -> str:
    """``text`` with ``node_id`` as its `node.id`: one line longer, or with one line changed.

    Raises Refused (`no_place_for_id`) where that cannot be done without a doubt, and where an id is there already.
    """
    before = compose(text, name=name)
    for splice in _candidates(text, before, node_id):
        result = text[: splice.start] + splice.piece + text[splice.end :]
        if _says_only_more(before, result, node_id):
            return result
    raise Refused(
        "no_place_for_id",
        f"{name}: found no place for the node id that is beyond doubt; nothing was changed.",
        hint=f"Write it yourself, in the section node of {name}:  id: {_scalar(node_id)}",
    )


def _says_only_more(before: Node | None, result: str, node_id: str) -> bool:
    try:
        after = compose(result, name="")
    except Invalid:
        return False
    return _id_of(after) == node_id and _without_id(after) == _without_id(before)


def _id_of(root: Node | None) -> str | None:
    section = get(root, "node") if isinstance(root, MappingNode) else None
    pair = get(section[1], "id") if section and isinstance(section[1], MappingNode) else None
    if pair is None or is_empty(pair[1]):
        return None
    return str(pair[1].value) if tag(pair[1]) == "str" else ""


def _without_id(root: Node | None) -> dict[str, Any]:
    """All that a document says apart from `node.id`, in a form that compares; an empty `node` is as good as none."""
    said = {} if root is None or is_empty(root) else _said(root)
    section = said.get("node")
    kept = section if isinstance(section, dict) else {}
    return {**said, "node": {key: value for key, value in kept.items() if key != "id"}}


def _said(node: Node) -> Any:
    if isinstance(node, MappingNode):
        return {key.value: _said(value) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [_said(item) for item in node.value]
    return (tag(node), node.value)


def _candidates(text: str, root: Node | None, node_id: str) -> Iterator[_Splice]:
    section = get(root, "node") if isinstance(root, MappingNode) else None
    if root is None or is_empty(root):
        yield _at_the_end(text, f"node: {{{_id_pair(node_id)}}}")
    elif isinstance(root, MappingNode) and section is None:
        yield from _new_section(text, root, node_id)
    elif isinstance(root, MappingNode) and section is not None:
        yield from _in_section(text, root, section, node_id)


def _new_section(text: str, root: MappingNode, node_id: str) -> Iterator[_Splice]:
    first = root.value[0][0] if root.value else None
    quote = _quote(first)
    pair = f"{quote}node{quote}: {{{_id_pair(node_id, like=first)}}}"
    if root.flow_style:
        yield from _into_flow(text, root, pair)
    else:
        line = " " * root.start_mark.column + pair
        yield _at_the_end(text, line)
        # When the last value ends with the file and would take a line break as its own (`key: |`): at the top.
        top = root.start_mark.index - root.start_mark.column
        yield _Splice(top, top, line + _line_break(text, top))


def _in_section(text: str, root: MappingNode, section: _Pair, node_id: str) -> Iterator[_Splice]:
    key, node = section
    if isinstance(node, MappingNode) and (pair := get(node, "id")):
        yield from _fill(text, pair, plain=_scalar(node_id), quoted=node_id)
    elif isinstance(node, MappingNode) and node.flow_style:
        yield from _into_flow(text, node, _id_pair(node_id, like=key))
    elif isinstance(node, MappingNode) or is_empty(node):
        yield from _below(text, root, section, node_id)
        yield from _fill(text, section, plain=f"{{{_id_pair(node_id, like=key)}}}")


def _at_the_end(text: str, line: str) -> _Splice:
    """Behind everything in the document, comments included; a file without a final line break stays without one."""
    end = _DOCUMENT_END.search(text)
    place = end.start() if end else len(text)
    line_break = _line_break(text, place)
    at_line_start = place == 0 or text[place - 1] in "\r\n\ufeff"
    return _Splice(place, place, line + line_break if at_line_start else line_break + line)


def _below(text: str, root: MappingNode, section: _Pair, node_id: str) -> Iterator[_Splice]:
    """Directly below `node:`, above its comments and keys, so that every comment stays with what it explains."""
    key, node = section
    colon = _COLON.match(text, key.end_mark.index)
    rest = _REST_OF_LINE.match(text, colon.end()) if colon else None
    if rest is None or root.flow_style:
        return
    column = node.value[0][0].start_mark.column if isinstance(node, MappingNode) else _indent(root)
    line = " " * column + _id_pair(node_id)
    piece = line + rest[1] if rest[1] else _line_break(text, rest.end()) + line
    yield _Splice(rest.end(), rest.end(), piece)


def _into_flow(text: str, mapping: MappingNode, pair: str) -> Iterator[_Splice]:
    """First in ``{...}``, with the spaces that stand there."""
    place = mapping.start_mark.index + 1
    if text[place - 1] != "{":  # an anchor or a type stands before it
        return
    lead = " " * (len(text) - place - len(text[place:].lstrip(" ")))
    tail = "" if not mapping.value else "," if lead or text[place] in "\r\n" else ", "
    yield _Splice(place, place, lead + pair + tail)


def _fill(text: str, pair: _Pair, *, plain: str, quoted: str = "") -> Iterator[_Splice]:
    """In the place of an empty value, in its own quotes if it has some."""
    start, end = pair[1].start_mark.index, pair[1].end_mark.index
    written = text[start:end]
    if not written and (colon := _COLON.match(text, pair[0].end_mark.index)):
        yield _Splice(colon.end(), colon.end(), f" {plain}")
    elif written in ('""', "''"):
        yield _Splice(start, end, f"{written[0]}{quoted}{written[0]}" if quoted else plain)
    elif written in ("~", "null", "Null", "NULL"):
        yield _Splice(start, end, plain)


def _quote(like: ScalarNode | None) -> str:
    return '"' if like is not None and like.style == '"' else ""


def _id_pair(node_id: str, *, like: ScalarNode | None = None) -> str:
    return f'"id": "{node_id}"' if _quote(like) else f"id: {_scalar(node_id)}"


def _scalar(node_id: str) -> str:
    return node_id if _SURELY_TEXT.fullmatch(node_id) else f'"{node_id}"'


def _indent(root: MappingNode) -> int:
    """The column of the keys in the file's first section, else two more than the root's."""
    for _, value in root.value:
        if isinstance(value, MappingNode) and not value.flow_style:
            return int(value.start_mark.column)
    return int(root.start_mark.column) + 2


def _line_break(text: str, place: int) -> str:
    """As the line before ``place`` ends, or the first one that ends at all."""
    before = _BREAK.findall(text, 0, place)
    return str(before[-1] if before else (_BREAK.findall(text, place) or ["\n"])[0])
