"""Simplified Chinese (F33): the catalogue holds every text of the code, its compiled image too, and people see it."""

import ast
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import django
import polib
import pytest
from django.apps import apps
from django.conf import settings
from django.test import Client
from django.utils import translation

from nodes.status import StatusFacts, derive_status
from relay.demo.report import report
from tests.support.fleet import live_node
from tests.support.manage import manage
from tunnelmesh.cli import language

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tunnelmesh", "nodes", "tokens", "relay")
FOLDER = ROOT / "tunnelmesh" / "locale" / "zh_Hans" / "LC_MESSAGES"
KEPT_RE = re.compile(r"%\(\w+\)[a-z]|(?<!\w)--?[a-z][\w-]*|\btunnelmesh \w+|\b\w+\.\w+\.\w+")
"""What a translation has to keep: places for values, options, commands, keys of the configuration."""
CHINESE = {"accept-language": "zh-CN,zh;q=0.9"}


def texts(source: str) -> set[str]:
    """Every text that a module hands to gettext; it must be a literal, and one of the two functions that are known."""
    tree = ast.parse(source)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = {
        alias.asname or alias.name: alias.name
        for node in imports
        if node.module == "django.utils.translation"
        for alias in node.names
    }
    assert set(names.values()) <= {"gettext", "gettext_lazy"}, names
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) in names}


def faults(catalogue: polib.POFile, wanted: set[str]) -> Iterator[str]:
    entries = {entry.msgid: entry for entry in catalogue if not entry.obsolete}
    yield from (f"not in the catalogue: {text}" for text in wanted - entries.keys())
    yield from (f"nothing says it any more: {text}" for text in entries.keys() - wanted)
    yield from (f"obsolete: {entry.msgid}" for entry in catalogue.obsolete_entries())
    for text, entry in entries.items():
        if not entry.translated():
            yield f"untranslated or fuzzy: {text}"
        elif entry.msgstr == text:
            yield f"still English: {text}"
        elif sorted(KEPT_RE.findall(text)) != sorted(KEPT_RE.findall(entry.msgstr)):
            yield f"other values, options, commands or keys: {text}"


@pytest.fixture(scope="module")
def catalogue() -> polib.POFile:
    return polib.pofile(str(FOLDER / "django.po"))


class TestCatalogue:
    def test_every_text_of_the_code_is_translated(self, catalogue: polib.POFile) -> None:
        modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
        wanted = set().union(*(texts(path.read_text(encoding="utf-8")) for path in modules))
        assert not list(faults(catalogue, wanted)), "mend django.po, with: ./dev messages"

    def test_the_compiled_one_is_its_image(self, catalogue: polib.POFile) -> None:
        compiled = polib.mofile(str(FOLDER / "django.mo"))
        assert {e.msgid: e.msgstr for e in compiled} == {e.msgid: e.msgstr for e in catalogue}, "run: ./dev messages"
        assert compiled.metadata == catalogue.metadata

    def test_it_changes_no_text_of_djangos_own(self, catalogue: polib.POFile) -> None:
        """Ours go before Django's catalogues, on every page."""
        ours = {entry.msgid: entry.msgstr for entry in catalogue}
        folders = [Path(django.__file__).parent / "conf", *(Path(app.path) for app in apps.get_app_configs())]
        for path in (folder / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.mo" for folder in folders):
            for entry in polib.mofile(str(path)) if path.exists() else ():
                assert entry.msgctxt or ours.get(entry.msgid, entry.msgstr) == entry.msgstr, path

    def test_no_template_holds_a_text(self) -> None:
        """Nothing here reads templates; the first one with a text needs that, too."""
        templates = [path for package in (*PACKAGES, "templates") for path in (ROOT / package).rglob("*.html")]
        assert not [path for path in templates if "i18n" in path.read_text(encoding="utf-8")]

    @pytest.mark.parametrize(
        ("msgid", "msgstr", "flags", "fault"),
        [
            ("one", "一", [], ""),
            ("two", "二", [], "not in the catalogue: one"),
            ("two", "二", [], "nothing says it any more: two"),
            ("one", "", [], "untranslated or fuzzy: one"),
            ("one", "一", ["fuzzy"], "untranslated or fuzzy: one"),
            ("one", "one", [], "still English: one"),
            ("one %(a)s", "一 %(b)s", [], "other values, options, commands or keys: one %(a)s"),
            ("run: tunnelmesh migrate --check", "请运行：tunnelmesh migrate --chek", [], "other values, options"),
            ("set server.relay.key", "请设置 server.relay.cert", [], "other values, options"),
        ],
    )
    def test_planted_faults_are_found(self, msgid: str, msgstr: str, flags: list[str], fault: str) -> None:
        planted = polib.POFile()
        planted.append(polib.POEntry(msgid=msgid, msgstr=msgstr, flags=flags))
        found = list(faults(planted, {"one"}))
        assert (not found) if not fault else any(text.startswith(fault) for text in found)

    def test_texts_are_found_by_their_meaning(self) -> None:
        source = "from django.utils.translation import gettext as _\nx = _('a'\n  'b')\ny = other('c')\n"
        assert texts(source) == {"ab"}
        with pytest.raises(ValueError, match="malformed"):
            texts("from django.utils.translation import gettext_lazy as _\nx = _(f'a{b}')\n")
        with pytest.raises(AssertionError, match="ngettext"):
            texts("from django.utils.translation import ngettext as _\n")


class TestPages:
    def test_the_list_of_nodes(self, admin_client: Client) -> None:
        live_node("server-a")
        page = admin_client.get("/admin/nodes/servernode/", headers=CHINESE)
        assert page.headers["Content-Language"] == "zh-hans"
        for words in ("服务器节点", "节点 ID", "纪元", "证书有效期至"):
            assert words in page.content.decode()

    def test_the_form_of_a_service(self, admin_client: Client) -> None:
        form = {"name": "web", "agent_id": "Agent", "host": "127.0.0.1", "port": "8080"}
        page = admin_client.post("/admin/relay/service/add/", form, headers=CHINESE).content.decode()
        for words in ("代理 ID", "主机", "已启用", "不是有效的代理 ID"):
            assert words in page

    def test_the_status_of_a_node(self) -> None:
        facts = StatusFacts(True, True, None, draining=False, unreachable=False, open_leases=0, health=None)
        with translation.override("zh-hans"):
            status = derive_status(facts, datetime(2027, 1, 1, tzinfo=UTC))
        assert (status.status, status.reason) == ("deleted", "已被管理员删除")


class TestCommands:
    @pytest.fixture(autouse=True)
    def _chinese(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")

    def test_init_node_id(self, tmp_path: Path) -> None:
        config = tmp_path / "server.yaml"
        config.write_text(f"node:\n  state_dir: {tmp_path}\n")
        node_id, origin, following, *_steps = manage("init_node_id", "--config", config).stdout.splitlines()
        assert node_id in config.read_text()
        assert origin == f"新身份，已写入 {config}。"
        assert following == "下一步："

    def test_check_config(self, tmp_path: Path) -> None:
        config = tmp_path / "server.yaml"
        config.write_text(f"mode: local\ndatabase: {{url: 'sqlite:///{tmp_path}/x'}}\n")
        assert "SKIP  server.relay: 本地模式没有中继\n" in manage("check_config", "--config", config).stdout
        answer = json.loads(manage("check_config", "--config", config, "--json").stdout)
        assert answer["values"]["mode"] == {"value": "local", "source": f"file {config}:1"}
        assert {"outcome": "SKIP", "check": "server.relay", "text": "本地模式没有中继", "hint": ""} in answer["checks"]

    def test_help(self) -> None:
        assert "查找或创建本节点的身份，并写入配置。" in manage("init_node_id", "--help").stdout

    def test_the_columns_of_the_demo_stay_in_line(self) -> None:
        place = {"pid": 1, "url": "127.0.0.1:1/", "admin_url": "127.0.0.1:1/admin/"}
        node = {"id": "server-a", "relay": "127.0.0.1:2", "agents": "127.0.0.1:3", "admin": "127.0.0.1:4", "pid": 2}
        demo = dict.fromkeys(("state", "logs", "ca", "token_file"), "/demo") | {
            "nodes": [node | {"entries": [], "cert": "c", "key": "k"}],
            "agents": [],
            "service": place,
            "web": place,
            "entry": place,
            "admin": {"username": "admin", "password": "x"},
        }
        with translation.override("zh-hans"):
            lines = list(report(demo))[1:]
        table = lines[1 : lines.index("")]
        places = {len(line.partition("127.")[0].encode("gbk")) for line in table}  # GBK: as many bytes as columns
        assert len(table) == 5
        assert len(places) == 1


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh-hans"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh-hans"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_GB.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "en_GB.UTF-8", "LC_ALL": "zh_SG"}, "zh-hans"),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "de_DE@euro"}, "en"),
        ({"LANG": "../../etc"}, "en"),
    ],
)
def test_the_locale_chooses_the_language_of_commands(environ: dict[str, str], expected: str) -> None:
    assert language(environ) == expected
    assert expected in dict(settings.LANGUAGES)
