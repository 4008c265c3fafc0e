"""The id goes in, and no other byte changes: R27's files and more, each with the one line that differs."""

import difflib
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tunnelmesh.common.errors import Invalid, Refused
from tunnelmesh.conf.yamlsplice import explicit_id, with_id

ID = "server-0123456789abcdef0123456789abcdef"


def changed_lines(before: str, after: str) -> list[str]:
    diff = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in diff if line[0] in "+-"]


ADDED = {
    "section present": ("mode: cluster\nnode:\n  state_dir: /x\n", f"+   id: {ID}"),
    "four spaces": ("node:\n    state_dir: /x\n", f"+     id: {ID}"),
    "one space": ("node:\n state_dir: /x\n", f"+  id: {ID}"),
    "comment of the next section": ("node:\n  state_dir: /x\n\n# the server\nserver:\n  web: {}\n", f"+   id: {ID}"),
    "comments inside": ("node:  # who\n  # where\n  state_dir: /x\n", f"+   id: {ID}"),
    "lists elsewhere": ("a:\n- b: [c]\nnode:\n  state_dir: /x\n", f"+   id: {ID}"),
    "null section": ("node:\nserver:\n    web: {}\n", f"+     id: {ID}"),
    "null section at the end": ("mode: cluster\nnode:\n", f"+   id: {ID}"),
    "null section, no final newline": ("mode: cluster\nnode:", f"+   id: {ID}"),
    "null section with comment, no final newline": ("node: # here", f"+   id: {ID}"),
    "commented section": ("# node:\n#   id: x\nmode: cluster\n", f"+ node: {{id: {ID}}}"),
    "id in another section": ("logging:\n  level: INFO\nother:\n  id: not-this\n", f"+ node: {{id: {ID}}}"),
    "no final newline": ("mode: cluster", f"+ node: {{id: {ID}}}"),
    "document marks": ("---\nmode: cluster\n...\n", f"+ node: {{id: {ID}}}"),
    "marks and a comment after": ("---\nmode: cluster\n...\n# end\n", f"+ node: {{id: {ID}}}"),
    "empty": ("", f"+ node: {{id: {ID}}}"),
    "blank": ("\n\n", f"+ node: {{id: {ID}}}"),
    "comments only": ("# nothing yet\n", f"+ node: {{id: {ID}}}"),
    "comments only, no final newline": ("# nothing yet", f"+ node: {{id: {ID}}}"),
    "start mark only": ("---\n", f"+ node: {{id: {ID}}}"),
    "both marks, nothing between": ("---\n...\n", f"+ node: {{id: {ID}}}"),
    "trailing comment": ("mode: cluster\n  # deep\n# done\n", f"+ node: {{id: {ID}}}"),
    "indented root": ("  mode: cluster\n  node:\n", f"+     id: {ID}"),
    "indented root without section": ("  mode: cluster\n", f"+   node: {{id: {ID}}}"),
    "double-quoted keys": ('"node":\n  "state_dir": /x\n', f"+   id: {ID}"),
    "double-quoted keys without section": ('"mode": cluster\n', f'+ "node": {{"id": "{ID}"}}'),
    "space before the colon": ("node :\n  state_dir: /x\n", f"+   id: {ID}"),
    "a literal block that ends with the file": ("a: |\n  x", f"+ node: {{id: {ID}}}"),
    "a kept literal block": ("a: |+\n  x\n\n", f"+ node: {{id: {ID}}}"),
    "a long line": (f"node:\n  state_dir: /x\nother: {'y' * 300}\n", f"+   id: {ID}"),
    "a %YAML directive": ("%YAML 1.2\n---\nmode: cluster\n", f"+ node: {{id: {ID}}}"),
    "aligned values": ("node:\n  state_dir:   /x   # here\n  other:       ~\n", f"+   id: {ID}"),
}


@pytest.mark.parametrize(("before", "line"), ADDED.values(), ids=ADDED)
def test_one_line_is_added(before: str, line: str) -> None:
    after = with_id(before, ID, name="f")
    assert changed_lines(before, after) == [line]
    assert explicit_id(after, name="f") == ID
    assert after.endswith("\n") == (before.endswith("\n") or not before)


CHANGED = {
    "empty id": ("node:\n  id:\n", f"  id: {ID}"),
    "empty id with comment": ("node:\n  id:   # made at the first start\n", f"  id: {ID}   # made at the first start"),
    "empty id with value spaces": ("node:\n  id:  \n  state_dir: /x\n", f"  id: {ID}  "),
    "empty text": ('node:\n  id: ""  # c\n', f'  id: "{ID}"  # c'),
    "empty single-quoted text": ("node:\n  id: ''\n", f"  id: '{ID}'"),
    "null": ("node:\n  id: null\n", f"  id: {ID}"),
    "tilde": ("node:\n    id: ~ # c\n", f"    id: {ID} # c"),
    "empty id before others": ("node:\n  id:\n  state_dir: /x\n", f"  id: {ID}"),
    "empty id after others": ("node:\n  state_dir: /x\n  id:", f"  id: {ID}"),
    "empty flow": ("node: {}\nmode: x\n", f"node: {{id: {ID}}}"),
    "spaced empty flow": ("node: { }\n", f"node: {{ id: {ID} }}"),
    "flow": ("node: {state_dir: /x} # c\n", f"node: {{id: {ID}, state_dir: /x}} # c"),
    "spaced flow": ("node: { state_dir: /x }\n", f"node: {{ id: {ID}, state_dir: /x }}"),
    "flow over lines": ("node: {\n  state_dir: /x\n}\n", f"node: {{id: {ID},"),
    "flow with a comment": ("node: { # c\n  state_dir: /x }\n", f"node: {{ id: {ID}, # c"),
    "empty id in flow": ("node: {id: , state_dir: /x}\n", f"node: {{id: {ID} , state_dir: /x}}"),
    "empty text in flow": ('node: {id: "", state_dir: /x}\n', f'node: {{id: "{ID}", state_dir: /x}}'),
    "null section": ("node: ~\n", f"node: {{id: {ID}}}"),
    "null section in words": ("node: null # c\n", f"node: {{id: {ID}}} # c"),
    "empty text as section": ('node: ""\n', f"node: {{id: {ID}}}"),
    "root in flow": ("{mode: cluster}\n", f"{{node: {{id: {ID}}}, mode: cluster}}"),
    "empty root": ("{}\n", f"{{node: {{id: {ID}}}}}"),
    "JSON": ('{"mode": "cluster"}', f'{{"node": {{"id": "{ID}"}}, "mode": "cluster"}}'),
    "JSON with section": ('{"node":{"state_dir":"/x"}}', f'{{"node":{{"id": "{ID}", "state_dir":"/x"}}}}'),
    "JSON with null section": ('{"node":null}', f'{{"node":{{"id": "{ID}"}}}}'),
    "JSON with null id": ('{"node":{"id":null}}', f'{{"node":{{"id":{ID}}}}}'),
    "null section in flow": ("{node: , mode: x}", f"{{node: {{id: {ID}}} , mode: x}}"),
    "complex key": ('node:\n  ? id\n  : ""\n', f'  : "{ID}"'),
    "value on the next line": ('node:\n  id:\n    ""\n', f'    "{ID}"'),
}


@pytest.mark.parametrize(("before", "line"), CHANGED.values(), ids=CHANGED)
def test_one_line_is_changed(before: str, line: str) -> None:
    after = with_id(before, ID, name="f")
    removed, added = (line for line in changed_lines(before, after))
    assert (removed[0], added) == ("-", f"+ {line}")
    assert explicit_id(after, name="f") == ID


REFUSED = {
    "anchor on the section": "node: &n\n  state_dir: /x\n",
    "anchor on an empty section": "node: &n\nmode: x\n",
    "anchor on a flow section": "node: &n {state_dir: /x}\n",
    "anchor on the id": 'node:\n  id: &i ""\n',
    "type on the section": "node: !!map\n  state_dir: /x\n",
    "type on the id": "node:\n  id: !!str\n",
    "complex key": "? node\n: state_dir: /x\n",
    "complex key of an empty id": "node:\n  ? id\n  :\n",
    "section is a text": "node: server-a\n",
    "section is a list": "node: [a]\n",
    "root is a text": "server-a\n",
    "root is a list": "- a\n",
    "null written out as root": "~\n",
    "key without a colon": "{node, mode: x}\n",
    "id without a colon": "node: {id}\n",
    "empty literal block": "node:\n  id: |\n",
    "there is an id": "node:\n  id: server-a\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_not_beyond_doubt_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        with_id(text, ID, name="/etc/f.yaml")
    assert refusal.value.code == "no_place_for_id"
    assert "/etc/f.yaml" in refusal.value.message
    assert ID in refusal.value.hint


NO_YAML = {
    "duplicate section": ("node:\n  state_dir: /x\nnode: {}\n", "f:3"),
    "duplicate id": ("node:\n  id: \n  id: \n", "f:3"),
    "tab": ("node:\n\tid:\n", "f:2"),
    "several documents": ("node:\n---\nnode:\n", "f:2"),
    "alias": ("a: &a {}\nnode: *a\n", "f:2"),
    "one anchor twice": ("a: &a x\nb: &a y\n", "f:2"),
    "merge key": ("node:\n  <<: {id: x}\n", "f:2"),
    "NUL": ("node: \x00\n", "f:1"),
    "mapping as key": ("node:\n  ? {a: b}\n  : c\n", "f:2"),
    "too deep": ("a: " + "[" * 30_000 + "]" * 30_000, "f:1"),
}


@pytest.mark.parametrize(("text", "place"), NO_YAML.values(), ids=NO_YAML)
def test_a_broken_file_is_refused_with_its_line(text: str, place: str) -> None:
    with pytest.raises(Invalid) as refusal:
        with_id(text, ID, name="f")
    assert refusal.value.code == "bad_yaml"
    assert refusal.value.message.startswith(f"{place}: found ")


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "text", ["node:\n  state_dir: /x\n", "mode: x\nnode:", "mode: x\n", "mode: x\n# c", "# c\n", "\n"]
)
def test_line_breaks_are_the_file_s_own(text: str, line_break: str) -> None:
    before = text.replace("\n", line_break)
    after = with_id(before, ID, name="f")
    assert len(changed_lines(before, after)) == 1
    assert after.count(line_break) == before.count(line_break) + 1
    assert after.replace(line_break, "").isprintable()


@pytest.mark.parametrize("text", ["\ufeff", "\ufeff# c\n", "\ufeffnode:\n  state_dir: /x\n", "\ufeffmode: x\n"])
def test_a_byte_order_mark_stays_first(text: str) -> None:
    after = with_id(text, ID, name="f")
    assert after.startswith("\ufeff")
    assert after.count("\ufeff") == 1
    assert explicit_id(after, name="f") == ID


@pytest.mark.parametrize("node_id", ["true", "null", "0x1f", "123", "1e3", "2026-01-01", "y", "server-a"])
def test_an_id_that_yaml_would_take_for_something_else_is_quoted(node_id: str) -> None:
    for text in ("", "node:\n", "node: {}\n", "node:\n  id: ''\n", "node:\n  id:\n"):
        assert explicit_id(with_id(text, node_id, name="f"), name="f") == node_id


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("node:\n  id: server-a\n", "server-a"),
        ("node: {id: 'Not Valid'}\n", "Not Valid"),
        ("node:\n  id: 5\n", ""),
        ("node:\n  id: [a]\n", ""),
        ("node:\n  id: ''\n", None),
        ("node:\n  id:\n", None),
        ("node: x\n", None),
        ("- node\n", None),
        ("", None),
    ],
)
def test_explicit_id(text: str, found: str | None) -> None:
    assert explicit_id(text, name="f") == found


KEYS = st.sampled_from(["mode", "node", "server", "id", '"quoted"', "'single'", "state_dir"])
SCALARS = st.sampled_from(["x", "", '""', "''", "~", "null", "5", "true", "'it''s'", '"a # b"', "a b", "x # c"])
COMMENTS = st.sampled_from(["", "# c", "   # deeper", "#", "  "])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Text that is nearly always YAML of our kind, in any style."""
    indent = " " * draw(st.integers(1, 4))
    lines = [draw(COMMENTS)] if draw(st.booleans()) else []
    lines += ["---"] * draw(st.booleans())
    for key in draw(st.lists(KEYS, max_size=4, unique=True)):
        form = draw(st.sampled_from(["scalar", "block", "flow", "list", "literal"]))
        inner = draw(st.lists(KEYS, max_size=3, unique=True))
        if form == "scalar":
            lines.append(f"{key}: {draw(SCALARS)}")
        elif form == "block":
            lines += [f"{key}:", draw(COMMENTS), *(f"{indent}{name}: {draw(SCALARS)}" for name in inner)]
        elif form == "flow":
            body = ", ".join(f"{name}: {draw(st.sampled_from(['x', '', '~']))}" for name in inner)
            lines.append(f"{key}: {{{body}}}")
        elif form == "list":
            lines += [f"{key}:", f"{indent}- a", f"{indent}- b: c"]
        else:
            lines += [f"{key}: |", f"{indent}text", ""]
        lines += [draw(COMMENTS)] * draw(st.booleans())
    lines += ["..."] * draw(st.booleans())
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    return text + draw(st.sampled_from(["", "\n", "\r\n", "\n\n"]))


def plain(text: str) -> Any:
    """What the document says, by ruamel's own constructor instead of our comparison."""
    return YAML(typ="safe", pure=True).load(text) or {}


def common(one: Iterable[str], other: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def kept(before: str, after: str) -> int:
    """How many characters of ``before`` stand unchanged at the two ends of ``after``."""
    head = common(before, after)
    return head + common(reversed(before[head:]), reversed(after))


@settings(max_examples=150, deadline=None)
@given(documents())
def test_whatever_the_file_one_place_changes_and_the_tree_gains_the_id(before: str) -> None:
    try:
        found = explicit_id(before, name="f")
    except Invalid:
        return
    if found is not None:
        return
    try:
        after = with_id(before, ID, name="f")
    except Refused:
        event("refused")
        assert not isinstance(plain(before).get("node") or {}, dict)
        return
    assert after.count(ID) == 1
    assert kept(before, after) >= len(before) - len("null")
    assert sum(line[0] == "+" for line in changed_lines(before, after)) == 1
    assert plain(after) == plain(before) | {"node": (plain(before).get("node") or {}) | {"id": ID}}


SEEDS = [
    "mode: cluster\nnode:\n  state_dir: /x\n# c\nserver: {a: [1, 2], \"b\": 'c'}\n",
    '{"node": {"id": null}, "mode": "x"}\n',
    "%YAML 1.1\n--- \nnode: {}\n...\n",
    "a: |2-\n   x\nb: >+\n  y\n\nnode: ~\n",
    "\ufeff? a\r\n: b\r\nnode:\r\n  id: &a ''\r\n",
    "a: \"x\\\n  y\"\nnode: 'q\n\n  z'\n",
]
PIECES = st.sampled_from(
    [
        "node:",
        "id:",
        "\n  ",
        "---\n",
        "...\n",
        "<<: ",
        "? ",
        "!!str ",
        "!<x> ",
        "&a ",
        "*a",
        "|+\n",
        "%TAG ! x\n",
        "{}",
        "\r",
    ]
) | st.text(alphabet="node:id {}[]\"'#\n\r\t-&*!|>?%@`~,.=\\\ufeff\u2028\x85é😀\x00\x07", max_size=3)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), PIECES), max_size=4))
def test_damaged_files_are_refused_or_spliced_and_nothing_else(text: str, edits: list[tuple[float, int, str]]) -> None:
    for where, cut, piece in edits:
        place = int(where * len(text))
        text = text[:place] + piece + text[place + cut :]
    try:
        if explicit_id(text, name="f") is None:
            after = with_id(text, ID, name="f")
            assert explicit_id(after, name="f") == ID
            assert kept(text, after) >= len(text) - len("null")
    except (Invalid, Refused):
        event("refused")
