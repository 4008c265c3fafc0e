"""Where a secret is: written out, in the environment, in a file or in the store (T2). Resolved when it is needed."""

import logging
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tunnelmesh.common.errors import Invalid, NotFound, Refused
from tunnelmesh.common.secrets import Secret

MAX_FILE_BYTES = 64 * 1024
_log = logging.getLogger(__name__)
_NAME_RE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STORE_RE = re.compile(r"[^#\s]+#[^#\s]+")


class Kind(StrEnum):
    LITERAL = "literal"
    ENV = "env"
    FILE = "file"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A reference to a secret. A literal one is kept masked, so that printing a configuration never shows it."""

    kind: Kind
    target: Secret | str

    @classmethod
    def parse(cls, text: str) -> "SecretRef":
        """Read ``env:NAME``, ``file:/path``, ``store:path#field`` or a literal; ValueError for a malformed reference.

        ValueError's text never holds ``text``: a mistyped reference may be a secret.
        """
        prefix, colon, target = text.partition(":")
        if not colon or prefix not in (Kind.ENV, Kind.FILE, Kind.STORE):
            return cls(Kind.LITERAL, Secret(_printable(text, "the literal secret")))
        kind = Kind(prefix)
        if kind is Kind.ENV and not _NAME_RE.fullmatch(target):
            raise ValueError("env: needs the name of an environment variable, as in env:RELAY_TOKEN")
        if kind is Kind.FILE and not (target.startswith("/") and target.isprintable()):
            raise ValueError("file: needs an absolute path, as in file:/etc/tunnelmesh/node-token")
        if kind is Kind.STORE and not _STORE_RE.fullmatch(target):
            raise ValueError("store: needs a path and a field, as in store:nodes/server-a#token")
        return cls(kind, target)

    @property
    def is_literal(self) -> bool:
        """Whether whoever reads the configuration has the secret."""
        return self.kind is Kind.LITERAL

    @property
    def file(self) -> Path | None:
        return Path(str(self.target)) if self.kind is Kind.FILE else None

    def __str__(self) -> str:
        return str(self.target) if self.is_literal else f"{self.kind}:{self.target}"

    def resolve(self, environ: Mapping[str, str] | None = None) -> Secret:
        """Read the secret now. Raises NotFound when it is not there and Invalid or Refused when it cannot be used."""
        if isinstance(self.target, Secret):
            return self.target
        if self.kind is Kind.ENV:
            return self._from_environment(self.target, os.environ if environ is None else environ)
        if self.file:
            return self._from_file(self.file)
        raise Refused(
            "store_unavailable",
            f"{self}: this version has no credential store",
            hint="Use file:/path (readable by the service only) or env:NAME.",
        )

    def _from_environment(self, name: str, environ: Mapping[str, str]) -> Secret:
        if not (value := environ.get(name)):
            raise NotFound(
                "no_secret",
                f"{self}: the environment variable {name} is not set",
                hint=f"Set {name}, or use file:/path.",
            )
        return Secret(self._usable(value))

    def _from_file(self, path: Path) -> Secret:
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise NotFound(
                "no_secret", f"{self}: cannot be read: {error.strerror}", hint=f"Look at it: ls -lL {path}"
            ) from None
        if stat.S_IMODE(mode) & 0o007:
            _log.warning("%s is open to every user of this host; run: chmod o= %s", path, path)
        if len(content) > MAX_FILE_BYTES:
            raise Invalid("bad_secret", f"{self}: larger than {MAX_FILE_BYTES} bytes, so it is not a token file")
        return Secret(self._usable(content.decode("utf-8", "replace")))

    def _usable(self, value: str) -> str:
        value = value.removesuffix("\n").removesuffix("\r")
        try:
            return _printable(value, str(self))
        except ValueError as error:
            raise Invalid(
                "bad_secret", str(error), hint="It must hold the token on one line and nothing else."
            ) from None


def _printable(value: str, what: str) -> str:
    """A secret travels in an HTTP head: no spaces, line breaks or other controls, and ASCII only."""
    if value and all("!" <= char <= "~" for char in value):
        return value
    raise ValueError(
        f"{what} is empty" if not value else f"{what} holds a space, a line break or a non-ASCII character"
    )
