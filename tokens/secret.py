"""The text form of a token, its digest, its hint and how a presented one is compared; pure.

`tmn_` (or `tma_`, `tmc_`, `tmd_`), 43 base62 characters that hold 256 random bits, and a 6-character checksum, so that
a scanner can tell a leaked token from noise (design.md section 4).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from collections.abc import Callable

from tunnelmesh.common.secrets import Secret

SECRET_BYTES = 32
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY_LENGTH = 43
_CHECKSUM_LENGTH = 6
_HINT_LENGTH = 8
_TOKEN_RE = re.compile(rf"(tm[nacd]_[0-9A-Za-z]{{{_BODY_LENGTH}}})([0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})")


def generate(prefix: str, random_bytes: Callable[[int], bytes]) -> Secret:
    """A new token under the prefix (`tmn_`, ...); `random_bytes` is `secrets.token_bytes`."""
    body = prefix + _base62(int.from_bytes(random_bytes(SECRET_BYTES), "big"), _BODY_LENGTH)
    return Secret(body + checksum(body))


def checksum(body: str) -> str:
    """The CRC-32 of prefix and body in base62: it finds typing errors and noise, it protects nothing."""
    return _base62(zlib.crc32(body.encode("ascii")), _CHECKSUM_LENGTH)


def is_well_formed(secret: Secret) -> bool:
    """Whether the text could be a token of ours at all."""
    match = _TOKEN_RE.fullmatch(secret.reveal())
    return match is not None and match[2] == checksum(match[1])


def digest(secret: Secret) -> str:
    """What is stored: SHA-256 in hexadecimal. 256 random bits need neither salt nor a slow hash."""
    return hashlib.sha256(secret.reveal().encode("utf-8", "surrogatepass")).hexdigest()


def hint(secret: Secret) -> str:
    """The first characters, for people to tell tokens apart: 24 of the 256 bits."""
    return secret.reveal()[:_HINT_LENGTH]


def same_digest(stored: str, presented: str) -> bool:
    """Whether two digests are equal, in constant time."""
    return hmac.compare_digest(stored.encode("ascii"), presented.encode("ascii"))


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
