"""SPEC.md says what the code does: its tables and examples are read here and compared."""

import re
from pathlib import Path

import pytest

from relay import gate
from relay.protocol import connect, heads, limits, problem, stream_ids, upgrade
from relay.protocol.errors import GoAwayCode
from relay.protocol.frames import ACK, FIN, LEGAL, RST, SYN
from relay.protocol.limits import Limits
from relay.protocol.stream import TABLE, Act, State

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "relay/protocol/SPEC.md").read_text()


def table(first_column: str) -> list[list[str]]:
    """The rows of the table whose first column has this title, without its head."""
    lines = iter(SPEC.splitlines())
    for line in lines:
        if line.startswith(f"| {first_column} |"):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    assert rows, f"no table begins with {first_column}"
    return rows


def names(kind: type) -> dict[str, int]:
    return {name: value for name, value in vars(kind).items() if name.isupper()}


def test_the_state_table() -> None:
    states, acts = names(State), names(Act)
    said = {}
    for state, *cells in table("state"):
        for act, cell in zip(acts, cells, strict=True):
            if cell in states:
                said[states[state], acts[act]] = states[cell]
            else:
                assert cell == "-" or state == "CLOSED"
    assert said == TABLE


def test_the_columns_of_the_state_table_are_the_acts() -> None:
    assert f"| state | {' | '.join(names(Act))} |" in SPEC


def test_the_legal_frames() -> None:
    bits = {"none": 0, "SYN": SYN, "ACK": ACK, "FIN": FIN, "RST": RST}
    said, flags = set(), ""
    for kind, cell, _, _ in table("type"):
        flags = flags if cell == "the same" else re.sub(r" \(.*?\)", "", cell)
        said |= {(int(kind[0]), sum(bits[bit] for bit in word.split("+"))) for word in flags.split(", ")}
    assert said == LEGAL


def test_the_goaway_codes() -> None:
    rows = [row for row in table("code") if row[1].isupper()]
    assert {name: int(code, 0) for code, name, _ in rows} == {code.name: code.value for code in GoAwayCode}


def test_the_refusals_of_streams() -> None:
    """Each code that the product's source gives to a stream, with its status."""
    said = set(re.findall(r"^\| ([a-z_]+) \| (\d{3}) \|", SPEC, re.MULTILINE))
    used = set()
    for path in (ROOT / "relay").rglob("*.py"):
        used |= {(code, status) for status, code in re.findall(r'Problem\((\d+), "([a-z_]+)"', path.read_text())}
    doors = {(code, str(status)) for code, status in gate._STATUS.items()}
    assert used - doors <= said
    assert said <= used
    for code, status in doors:
        assert re.search(rf"\b{code}\s+{status}\b", SPEC), code


UNITS = {"": 1, "KiB": 1024, "MiB": 1024 * 1024, "s": 1, "ms": 0.001}


def number(text: str) -> float:
    if text == "2^32-1":
        return 2**32 - 1
    amount, _, unit = text.partition(" ")
    return int(amount.replace(",", "")) * UNITS[unit]


def test_the_limits() -> None:
    said = {name: number(value) for name, value, reason in table("limit") if reason}
    constants = {
        name: getattr(module, name)
        for module in (limits, heads, problem, stream_ids)
        for name in vars(module)
        if name.isupper() and type(getattr(module, name)) is int
    }
    fields = {name: getattr(Limits(), name) for name in Limits.__dataclass_fields__}
    assert said == constants | fields


@pytest.mark.parametrize("example", re.findall(r"```http\n(.*?)```", SPEC, re.DOTALL))
def test_the_examples(example: str) -> None:
    data = example.replace("\n", "\r\n").encode()
    end = heads.find_end(data)
    head, body = data[:end], data[end:].rstrip()
    assert end
    if head.startswith(b"GET"):
        assert upgrade.decode_request(head).encode() == head
    elif head.startswith(b"CONNECT"):
        assert connect.decode_request(head).encode() == head
    elif b" 101 " in head:
        accepted = upgrade.decode_answer(head)
        assert accepted is not None
        assert accepted.encode() == head
    elif b" 200 " in head:
        assert head == connect.OK
    else:
        assert problem.body_length(head) == len(body)
        assert problem.decode(head, body).encode() == head + body
