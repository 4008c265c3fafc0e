"""A secret shows itself nowhere: printed, compared, logged, in a traceback (P5)."""

import copy
import io
import json
import logging
import pickle
from collections.abc import Callable, Iterator

import pytest

from tunnelmesh.common.logging import configure
from tunnelmesh.common.secrets import Secret, redact

CANARY = "tmn_CanaryCanaryCanaryCanaryCanaryCanaryCanary1"


def test_shown_nowhere() -> None:
    secret = Secret(CANARY)
    for text in (repr(secret), str(secret), f"{secret}", f"{secret!r}", repr([secret])):
        assert "Canary" not in text
    assert secret.reveal() == CANARY
    assert not hasattr(secret, "__dict__")


def test_compared() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("ä") == Secret("ä")
    assert Secret("a") != "a"


@pytest.mark.parametrize("act", [hash, pickle.dumps, copy.copy, copy.deepcopy, json.dumps])
def test_written_and_hashed_nowhere(act: Callable[[object], object]) -> None:
    with pytest.raises(TypeError):
        act(Secret(CANARY))


@pytest.mark.parametrize(
    "text",
    [
        f"token {CANARY}",
        f"Authorization: Bearer {CANARY}",
        "Authorization: Bearer opaque-Canary",
        "authorization=Basic Canary",
        "{'Authorization': 'Bearer Canary'}",
        "(b'Authorization', b'Canary')",
        '"authorization": "Canary"',
        f"tma_{'Canary' * 8} and tmc_{'Canary' * 8}, tmd_{'Canary' * 8}",
    ],
)
def test_redacted(text: str) -> None:
    assert "Canary" not in redact(text)


@pytest.mark.parametrize("text", ["", "tmn_", "tmn_short", "authorised", "the node tmn-a", "Authorization"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.fixture(params=["json", "text"])
def log(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure("DEBUG", request.param, stream=stream)
    yield logging.getLogger("tunnelmesh.test"), stream
    root.handlers = handlers
    root.setLevel(level)


def test_logged_nowhere(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.info("plain %s", CANARY)
    logger.info(
        "object %s", Secret(CANARY), extra={"head": f"Authorization: Bearer {CANARY}", "secret": Secret(CANARY)}
    )
    logger.info("stack", stack_info=True)
    try:
        raise ValueError(f"cannot parse {CANARY}")
    except ValueError:
        logger.exception("failed for %s", CANARY)
    assert "Canary" not in stream.getvalue()
    assert "ValueError: cannot parse tmn_********" in stream.getvalue()
