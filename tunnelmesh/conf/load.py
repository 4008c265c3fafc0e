"""Loads a configuration: command line over environment over file over default, with the source of every value.

The state file, which only an identity can come from, is looked at by `nodes.identity`.
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from tunnelmesh.common.errors import Invalid, NotFound, Refused
from tunnelmesh.common.secrets import redact
from tunnelmesh.conf import yamltree
from tunnelmesh.conf.kinds import Kind
from tunnelmesh.conf.schema import AgentConfig, Section, ServerConfig, settings
from tunnelmesh.conf.secretref import SecretRef
from tunnelmesh.conf.values import Unfit, as_shown, from_node, from_text

Config = TypeVar("Config", bound=Section)
DEFAULT = "default"
COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class Loaded(Generic[Config]):
    """A configuration and, for every dotted key, where its value came from: "command line", "environment NAME",
    "file /path:line" or "default"."""

    value: Config
    sources: Mapping[str, str]
    path: Path | None

    def shown(self) -> dict[str, Any]:
        """Every key with its value and its source, for people and JSON; secrets are masked."""
        return {
            key: {"value": self._value(key, field), "source": self.sources[key]}
            for key, field in settings(type(self.value))
        }

    def _value(self, key: str, field: "Field[Any]") -> Any:
        return as_shown(field.metadata["kind"], attrgetter(key)(self.value))


class BadConfiguration(Invalid):
    """Everything that is wrong with a configuration, one line each in ``problems``."""

    def __init__(self, problems: list[str], *, hint: str) -> None:
        super().__init__("bad_config", "\n".join(problems), hint=hint)
        self.problems = problems


def load_server_config(
    path: Path | None, *, cli: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> Loaded[ServerConfig]:
    """Load a node's configuration. ``cli`` maps dotted keys to text; without ``path`` there is no file.

    Raises BadConfiguration or another DomainError; its text names file and line, key, what was found (never a secret)
    and what is allowed.
    """
    return _Loader(ServerConfig, path).load(cli or {}, os.environ if environ is None else environ)


def load_agent_config(
    path: Path | None, *, cli: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> Loaded[AgentConfig]:
    """Load an agent's configuration, in the manner of ``load_server_config``."""
    return _Loader(AgentConfig, path).load(cli or {}, os.environ if environ is None else environ)


def variable(key: str) -> str:
    """The environment variable of a dotted key."""
    return f"TUNNELMESH_{key.replace('.', '_').upper()}"


def read_file(path: Path) -> bytes:
    """The bytes of a configuration file, as far as they can be one. Raises NotFound or Refused."""
    try:
        if not path.is_file() and path.exists():
            raise Refused("bad_config_file", f"{path} is not a file", hint="Name a file: --config PATH")
        with path.open("rb") as file:
            return file.read(yamltree.MAX_BYTES + 1)
    except FileNotFoundError:
        hint = "Name another with --config PATH, or begin with a copy of deploy/config/server.yaml (agent.yaml)."
        raise NotFound("no_config", f"There is no configuration file {path}", hint=hint) from None
    except OSError as error:
        raise Refused(
            "config_not_readable", f"{path} cannot be read: {error.strerror}", hint=f"Look at it: ls -l {path}"
        ) from None


class _Loader(Generic[Config]):
    """One load: collects values with their sources, and every problem instead of only the first."""

    def __init__(self, cls: type[Config], path: Path | None) -> None:
        self._cls = cls
        self._path = path
        self._fields: dict[str, Field[Any]] = dict(settings(cls))
        self._values: dict[str, Any] = {}
        self._sources = dict.fromkeys(self._fields, DEFAULT)
        self._problems: list[str] = []

    def load(self, cli: Mapping[str, str], environ: Mapping[str, str]) -> Loaded[Config]:
        if self._path is not None:
            self._take_file(self._path)
        for key in self._fields:
            if text := environ.get(variable(key)):
                self._take(key, f"environment {variable(key)}", text)
        for key, text in cli.items():
            if key in self._fields:
                self._take(key, COMMAND_LINE, text)
            else:
                self._problems.append(f"{COMMAND_LINE}: {self._unknown(key)}")
        value = self._build(self._cls, "")
        if value is None or self._problems:
            raise BadConfiguration(self._problems, hint=self._hint())
        return Loaded(value, self._sources, self._path)

    def _hint(self) -> str:
        agent = " --agent" if self._cls is AgentConfig else ""
        config = f" --config {self._path}" if self._path else ""
        return f"Mend that, then run: tunnelmesh check_config{agent}{config}"

    def _take_file(self, path: Path) -> None:
        root = yamltree.compose(yamltree.decode(read_file(path), name=str(path)), name=str(path))
        if isinstance(root, yamltree.MappingNode):
            self._take_section(root, "")
        elif root is not None and not yamltree.is_empty(root):
            names = ", ".join(dict.fromkeys(key.partition(".")[0] for key in self._fields))
            self._problems.append(f"{path}:{yamltree.line(root)}: found no keys; allowed: {names}")

    def _take_section(self, mapping: yamltree.MappingNode, prefix: str) -> None:
        for name, node in mapping.value:
            key, place = f"{prefix}{name.value}", f"{self._path}:{yamltree.line(name)}"
            if key in self._fields:
                if not yamltree.is_empty(node):
                    self._take(key, f"file {place}", node)
            elif not any(known.startswith(f"{key}.") for known in self._fields):
                self._problems.append(f"{place}: {self._unknown(key)}")
            elif isinstance(node, yamltree.MappingNode):
                self._take_section(node, f"{key}.")
            elif not yamltree.is_empty(node):
                self._problems.append(f"{place}: {key}: found a single value; allowed: keys of this section below it")

    def _take(self, key: str, source: str, given: str | yamltree.Node) -> None:
        kind = self._kind(key)
        self._sources[key] = source
        try:
            value = from_text(kind, given) if isinstance(given, str) else from_node(kind, given)
            if source == COMMAND_LINE and isinstance(value, SecretRef) and value.is_literal:
                raise Unfit("found the secret itself, which every user of this host can read there")
            self._values[key] = value
        except Unfit as found:
            self._problems.append(f"{source.removeprefix('file ')}: {key}: {found}; allowed: {kind.allowed}")

    def _kind(self, key: str) -> Kind:
        kind: Kind = self._fields[key].metadata["kind"]
        return kind

    def _unknown(self, key: str) -> str:
        """Never shows the value: a mistyped key may hold a secret."""
        sections = {known.rpartition(".")[0] for known in self._fields} - {""}
        known = [*self._fields, *sorted(sections)]
        same = [name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]]
        near = same[:1] or get_close_matches(key, known, n=1)
        shown = repr(redact(key[:80]))[1:-1]
        return f"{shown}: unknown key" + (f"; did you mean {near[0]}?" if near else "")

    def _build(self, cls: type[Any], prefix: str) -> Any:
        """The section ``cls`` from the values below ``prefix``; None when something in it is missing or wrong."""
        arguments, complete = {}, True
        for field in fields(cls):
            key = f"{prefix}{field.name}"
            if "section" in field.metadata:
                arguments[field.name] = self._build(field.metadata["section"], f"{key}.")
                complete &= arguments[field.name] is not None
            elif key in self._values:
                arguments[field.name] = self._values[key]
            elif self._sources[key] != DEFAULT:
                complete = False
            elif field.default is MISSING and field.default_factory is MISSING:
                complete = False
                self._problems.append(f"{self._where(key)}: missing; allowed: {self._kind(key).allowed}")
        return self._judged(cls(**arguments), prefix) if complete else None

    def _judged(self, built: Section, prefix: str) -> Section:
        self._problems += [f"{self._where(prefix + broken.key)}: {broken.text}" for broken in built.broken()]
        return built

    def _where(self, key: str) -> str:
        source = self._sources[key].removeprefix("file ")
        place = str(self._path or "the configuration") if source == DEFAULT else source
        return f"{place}: {key}"
