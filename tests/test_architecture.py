"""The house rules of docs/architecture.md as tests. Each check is first shown a planted fault that it must find."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tunnelmesh", "nodes", "tokens", "relay")
PRODUCT = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts
)

MODULE_LINES, FUNCTION_LINES, HANDLER_LINES, ARGUMENTS = 500, 60, 30, 8
ALLOWED_IN_ROOT = {
    *PACKAGES, "tests", "benchmarks", "deploy", "docs", "locale", "requirements", "static", "templates",
    "manage.py", "dev", "pyproject.toml",
    "README.md", "CONTRIBUTING.md", "SECURITY.md", "THREAT_MODEL.md", "CHANGELOG.md", "LICENSE",
}  # fmt: skip
SANS_IO = ("relay/protocol/", "relay/router.py", "relay/policy.py")
SANS_IO_FORBIDDEN = {
    "asyncio", "socket", "ssl", "select", "selectors", "subprocess", "threading", "multiprocessing", "concurrent",
    "time", "datetime", "random", "secrets", "os", "logging",
    "django", "rest_framework", "tunnelmesh", "nodes", "tokens",
}  # fmt: skip
LOCAL_TIME = {"time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "datetime.now", "datetime.utcnow"}
NEVER_IN_THE_TREE = {
    "a package index": re.compile(
        r"(?<!emit-)index-url[\s=]|find-links[\s=]+\S+://|\"resolved\":\s*\"http|registry\s*=\s*http"
    ),
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|home/\w+|Users/\w+)/|(?<![\w.])/root/"),
    "unfinished work": re.compile(r"\b(?:TODO|FIXME|XXX)\b"),
    "a private key": re.compile(r"-----BEGIN (?:\w+ )?PRIVATE KEY-----\n[A-Za-z0-9+/=\n]{40}"),
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def oversized(name: str, source: str) -> list[str]:
    """Modules, functions, views, command handlers and argument lists above the hard limits."""
    lines = len(source.splitlines())
    found = [f"{name}: {lines} lines"] if lines > MODULE_LINES else []
    is_view = Path(name).name == "views.py"
    for function in functions(source):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        handler = is_view or (function.name == "handle" and "/management/commands/" in name)
        if length > (HANDLER_LINES if handler else FUNCTION_LINES):
            found.append(f"{name}:{function.lineno} {function.name}: {length} lines")
        spec = function.args
        names = [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        if len(names) - (names[:1] in (["self"], ["cls"])) > ARGUMENTS:
            found.append(f"{name}:{function.lineno} {function.name}: {len(names)} arguments")
    return found


def without_docstring(name: str, source: str) -> list[str]:
    tree = ast.parse(source)
    return [name] if tree.body and not ast.get_docstring(tree) else []


def imported(source: str) -> set[str]:
    """Top-level names of everything a module imports absolutely, wherever in the module it does so."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def reads_local_time(source: str) -> list[str]:
    """Calls of the clock, by their dotted ends (`datetime.datetime.now()` and `datetime.now()` alike)."""
    calls = (ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call for call in calls if ".".join(call.split(".")[-2:]) in LOCAL_TIME]


def commands_without_test(paths: list[str]) -> list[str]:
    commands = [Path(path).stem for path in paths if re.search(r"/management/commands/[a-z]\w*\.py$", path)]
    return [command for command in commands if f"tests/commands/test_{command}.py" not in paths]


def foreign_in_root(paths: list[str]) -> list[str]:
    tops = {path.partition("/")[0] for path in paths}
    return sorted(top for top in tops if not top.startswith(".") and top not in ALLOWED_IN_ROOT)


def never_in_the_tree(name: str, text: str) -> list[str]:
    return [f"{name}: {what}" for what, pattern in NEVER_IN_THE_TREE.items() if pattern.search(text)]


def dead_references(name: str, text: str) -> list[str]:
    """Relative links and tests named as `tests/file.py::test` in a page that lead nowhere."""
    links = re.findall(r"\]\((?!\w+:)([^)#]+)", re.sub(r"`[^`\n]*`", "", text))
    dead = [link for link in links if not (ROOT / name).parent.joinpath(link).exists()]
    for path, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        if not (ROOT / path).exists() or f"def {test}" not in (ROOT / path).read_text():
            dead.append(f"{path}::{test}")
    return [f"{name}: {link}" for link in dead]


@pytest.fixture(scope="module")
def tree() -> list[str]:
    """Every file that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in listing.split("\0") if path and (ROOT / path).is_file()]


class TestSizes:
    @pytest.mark.parametrize(
        ("name", "source", "fault"),
        [
            ("nodes/a.py", "x = 1\n" * 501, "501 lines"),
            ("nodes/a.py", "def f():\n" + "    x = 1\n" * 60, "f: 61 lines"),
            ("nodes/a.py", "class A:\n  async def f(self):\n" + "    x = 1\n" * 60, "f: 61 lines"),
            ("nodes/views.py", "def f():\n" + "    x = 1\n" * 30, "f: 31 lines"),
            ("nodes/management/commands/a.py", "def handle():\n" + "    x = 1\n" * 30, "handle: 31 lines"),
            ("nodes/a.py", "def f(a, b, c, d, *, e, f, g, h, i): ...", "f: 9 arguments"),
        ],
    )
    def test_planted(self, name: str, source: str, fault: str) -> None:
        assert [found.endswith(fault) for found in oversized(name, source)] == [True]

    def test_limits_themselves_are_allowed(self) -> None:
        assert oversized("nodes/a.py", "def f(self, a, b, c, d, e, f, g, h):\n" + "    x = 1\n" * 59) == []

    def test_product(self) -> None:
        assert [fault for path in PRODUCT for fault in oversized(name_of(path), path.read_text())] == []


class TestModules:
    def test_planted(self) -> None:
        assert without_docstring("a.py", "import os\n") == ["a.py"]
        assert without_docstring("a.py", "") == []

    def test_product(self) -> None:
        assert [fault for path in PRODUCT for fault in without_docstring(name_of(path), path.read_text())] == []


class TestSansIO:
    def test_planted(self) -> None:
        source = "def f():\n    import time\n    from django.db import models\n    from . import window\n"
        assert imported(source) & SANS_IO_FORBIDDEN == {"time", "django"}

    def test_product(self) -> None:
        modules = [path for path in PRODUCT if name_of(path).startswith(SANS_IO)]
        assert len(modules) > len(SANS_IO)
        faults = {name_of(path): imported(path.read_text()) & SANS_IO_FORBIDDEN for path in modules}
        assert {name: names for name, names in faults.items() if names} == {}


class TestClock:
    def test_planted(self) -> None:
        source = "import time, datetime\ntime.monotonic()\ndatetime.datetime.now(tz)\nloop.time()\nclock.now()\n"
        assert reads_local_time(source) == ["time.monotonic", "datetime.datetime.now"]

    def test_product(self) -> None:
        calls = {name_of(path): reads_local_time(path.read_text()) for path in PRODUCT}
        assert {name for name, found in calls.items() if found} == {"tunnelmesh/common/clock.py"}


class TestCommands:
    def test_planted(self) -> None:
        paths = ["nodes/management/commands/a_b.py", "nodes/management/commands/__init__.py"]
        assert commands_without_test(paths) == ["a_b"]
        assert commands_without_test([*paths, "tests/commands/test_a_b.py"]) == []

    def test_product(self, tree: list[str]) -> None:
        assert commands_without_test(tree) == []


class TestTree:
    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("--index" + "-url http://mirror.example/simple", "a package index"),
            ('"resolved"' + ': "http://mirror.example/a.tgz"', "a package index"),
            ("cd /wo" + "rk/main", "a path of one machine"),
            ("# TO" + "DO: later", "unfinished work"),
            ("-----BEGIN EC PRIVATE" + " KEY-----\n" + "A" * 64, "a private key"),
        ],
    )
    def test_planted_text(self, text: str, what: str) -> None:
        assert never_in_the_tree("a", text) == [f"a: {what}"]

    def test_planted_file(self) -> None:
        assert foreign_in_root([".gitignore", "nodes/a.py", "notes.txt", "utils/a.py"]) == ["notes.txt", "utils"]

    def test_root_holds_only_what_the_plan_lists(self, tree: list[str]) -> None:
        assert foreign_in_root(tree) == []

    def test_text(self, tree: list[str]) -> None:
        texts = ((name, (ROOT / name).read_text(errors="replace")) for name in tree if ROOT / name != Path(__file__))
        assert [fault for name, text in texts for fault in never_in_the_tree(name, text)] == []


class TestDocumentation:
    def test_planted(self) -> None:
        text = (
            "[a](README.md) [b](none.md) [c](https://x.example) `tests/test_architecture.py::test_none` `tests/no.py`"
        )
        assert dead_references("docs/x.md", text) == [
            "docs/x.md: none.md",
            "docs/x.md: tests/test_architecture.py::test_none",
            "docs/x.md: tests/no.py::",
        ]

    def test_pages(self, tree: list[str]) -> None:
        pages = [name for name in tree if name.endswith(".md")]
        assert [dead for name in pages for dead in dead_references(name, (ROOT / name).read_text())] == []


PLANTED_IMPORTS = {
    "The house": ("nodes/status.py", "import relay"),
    "Inside nodes and tokens": ("tokens/scope.py", "import tokens.models"),
    "Inside relay": ("relay/gate.py", "import relay.registry"),
    "The protocol": ("relay/protocol/frames.py", "import socket"),
    "The domain": ("nodes/selectors.py", "import rest_framework"),
    "The asyncio shell": ("relay/net/tls.py", "import tokens.scope"),
    "Only the registry": ("relay/daemon.py", "import nodes.models"),
    "Nobody": ("relay/router.py", "import tests.support"),
    "Settings": ("relay/registry.py", "import tunnelmesh.settings.base"),
    "No package": ("relay/protocol/frames.py", "import relay.protocol.session"),
}


class TestImports:
    def lint(self, folder: Path) -> dict[str, str]:
        """Each contract of `.importlinter` with KEPT or BROKEN, judged on the packages in that folder."""
        command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", ROOT / ".importlinter"]
        done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        return dict(re.findall(r"^(.+) (KEPT|BROKEN)(?: \(.*\))?$", done.stdout, re.MULTILINE))

    def test_planted(self, tmp_path: Path) -> None:
        for package in (*PACKAGES, "tests/support"):
            shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / "tests" / "__init__.py").touch()
        for module, line in PLANTED_IMPORTS.values():
            with (tmp_path / module).open("a") as file:
                file.write(f"\n{line}\n")
        verdicts = self.lint(tmp_path)
        assert set(verdicts.values()) == {"BROKEN"}, verdicts
        assert len(verdicts) == len(PLANTED_IMPORTS)
        assert all(any(name.startswith(start) for name in verdicts) for start in PLANTED_IMPORTS)

    def test_product(self) -> None:
        verdicts = self.lint(ROOT)
        assert len(verdicts) == len(PLANTED_IMPORTS)
        assert {name for name, verdict in verdicts.items() if verdict != "KEPT"} == set()
