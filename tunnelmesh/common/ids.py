"""The grammar of node and agent ids (one DNS label, design.md section 3) and the generator of F14; pure."""

import re
from collections.abc import Callable

from tunnelmesh.common.errors import Invalid

NODE_ID_RE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
NODE_ID_MAX = 63
_RANDOM_BYTES = 16


def is_node_id(text: str) -> bool:
    """Whether ``text`` is one lower-case DNS label; the whole of it, so a trailing newline does not pass."""
    return NODE_ID_RE.fullmatch(text) is not None


is_agent_id = is_node_id


def check_node_id(text: str) -> str:
    """Return ``text`` unchanged, or raise ``Invalid``: an id is compared byte for byte and never normalised."""
    if is_node_id(text):
        return text
    raise Invalid(
        "bad_node_id",
        f"{text[:80]!a} is not a node id",
        hint="A node id is 1 to 63 characters of a-z, 0-9 and '-', and neither begins nor ends with '-'.",
    )


def generate_node_id(random_bytes: Callable[[int], bytes]) -> str:
    """``server-`` and 32 lower-case hex digits (F14); give it ``secrets.token_bytes``."""
    return f"server-{random_bytes(_RANDOM_BYTES).hex()}"
