"""What the fuzz targets eat: the corpus, the corpus damaged, and noise. TUNNELMESH_FUZZ=N runs N examples, not 300.

The corpus is kept small: one file for each thing that is worth damaging, and one for each fault that fuzzing has found.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parent / "corpus"

fuzz = settings(
    max_examples=int(os.environ.get("TUNNELMESH_FUZZ", "300")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def corpus(name: str) -> list[bytes]:
    """The files of one target."""
    files = sorted((CORPUS / name).iterdir())
    assert files, f"no corpus for {name}"
    return [path.read_bytes() for path in files]


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A few seeds in a row, with bytes changed, removed, doubled and put in."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(seeds), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["put", "change", "cut", "double", "long"])):
            case "put":
                data[at:at] = draw(st.binary(min_size=1, max_size=4))
            case "change":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del data[at : at + draw(st.integers(1, 20))]
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
            case "long":
                data[at:at] = data[at : at + 1] * draw(st.integers(1, 20_000))
    return bytes(data)


def inputs(name: str) -> st.SearchStrategy[bytes]:
    """Everything for one target."""
    seeds = corpus(name)
    return st.one_of(st.sampled_from(seeds), damaged(seeds), damaged(seeds), st.binary(max_size=200))
