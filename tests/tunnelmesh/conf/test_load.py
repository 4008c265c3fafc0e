"""Precedence with the source of every value, and errors that name place, key, what was found and what is allowed."""

import os
from pathlib import Path

import pytest

from tunnelmesh.common.errors import DomainError, Invalid, NotFound, Refused
from tunnelmesh.conf.load import BadConfiguration, Loaded, load_agent_config, load_server_config, variable
from tunnelmesh.conf.schema import Address, AgentConfig, ServerConfig

CANARY = "tmn_CanaryCanaryCanaryCanaryCanaryCanaryCanary1"
AGENT = "name: a\nservers: ['n:7443']\ntoken: env:T\nca: /ca\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.yaml"


def server(
    path: Path, text: str, *, cli: dict[str, str] | None = None, environ: dict[str, str] | None = None
) -> Loaded[ServerConfig]:
    path.write_text(text)
    return load_server_config(path, cli=cli, environ=environ or {})


def agent(path: Path, text: str, *, environ: dict[str, str] | None = None) -> Loaded[AgentConfig]:
    path.write_text(text)
    return load_agent_config(path, environ=environ or {})


def problems(path: Path, text: str, **given: dict[str, str]) -> list[str]:
    """What is wrong with a server.yaml, the file's own path left out."""
    with pytest.raises(BadConfiguration) as error:
        server(path, text, **given)
    assert error.value.hint == f"Mend that, then run: tunnelmesh check_config --config {path}"
    return [problem.replace(f"{path}: ", "FILE: ").replace(f"{path}:", "") for problem in error.value.problems]


def agent_problems(path: Path, text: str) -> list[str]:
    with pytest.raises(BadConfiguration) as error:
        agent(path, text)
    assert "check_config --agent" in error.value.hint
    return [problem.replace(f"{path}: ", "FILE: ").replace(f"{path}:", "") for problem in error.value.problems]


class TestPrecedence:
    def test_each_source_wins_over_the_next(self, path: Path) -> None:
        text = "node:\n  id: from-file\n"
        environ = {"TUNNELMESH_NODE_ID": "from-environment"}
        loaded = server(path, text, cli={"node.id": "from-cli"}, environ=environ)
        assert (loaded.value.node.id, loaded.sources["node.id"]) == ("from-cli", "command line")
        loaded = server(path, text, environ=environ)
        assert (loaded.value.node.id, loaded.sources["node.id"]) == (
            "from-environment",
            "environment TUNNELMESH_NODE_ID",
        )
        loaded = server(path, text)
        assert (loaded.value.node.id, loaded.sources["node.id"]) == ("from-file", f"file {path}:2")
        loaded = server(path, "")
        assert (loaded.value.node.id, loaded.sources["node.id"]) == (None, "default")

    def test_every_key_has_a_source(self, path: Path) -> None:
        sources = server(path, "server: {relay: {listen: '[::]:9443'}}\n").sources
        assert sources["server.relay.listen"] == f"file {path}:1"
        assert sources["server.limits.keepalive"] == "default"
        assert {source for key, source in sources.items() if key != "server.relay.listen"} == {"default"}

    def test_without_a_file_there_are_defaults_and_the_environment(self) -> None:
        loaded = load_server_config(None, environ={"TUNNELMESH_LOGGING_LEVEL": "DEBUG"})
        assert loaded.value.logging.level == "DEBUG"
        assert loaded.path is None

    def test_the_process_environment_is_the_default(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TUNNELMESH_SERVER_ADMIN_LISTEN", "127.0.0.1:1")
        path.write_text("")
        assert load_server_config(path).value.server.admin.listen == Address("127.0.0.1", 1)
        path.write_text(AGENT)
        monkeypatch.setenv("TUNNELMESH_NAME", "b")
        assert load_agent_config(path).value.name == "b"

    @pytest.mark.parametrize(
        "text", ["", "# c\n", "---\n", "{}", "~", "node:\n", "node: {id: }\n", "node:\n  id: ''\n"]
    )
    def test_what_is_empty_counts_as_not_given(self, path: Path, text: str) -> None:
        loaded = server(path, text, environ={"TUNNELMESH_NODE_ID": "", "TUNNELMESH_MODE": ""})
        assert set(loaded.sources.values()) == {"default"}

    def test_variables_are_distinct(self) -> None:
        for sources in (load_server_config(None, environ={}).sources,):
            assert len({variable(key) for key in sources}) == len(sources)
        assert variable("server.relay.listen") == "TUNNELMESH_SERVER_RELAY_LISTEN"

    def test_lists_and_names_in_the_environment(self, path: Path) -> None:
        environ = {
            "TUNNELMESH_SERVERS": "n:7443, [::1]:7444,",
            "TUNNELMESH_METADATA": "site=cellar,rack=3b=c",
            "TUNNELMESH_LIMITS_KEEPALIVE": "2.5",
            "TUNNELMESH_LIMITS_MAX_STREAMS": "7",
        }
        value = agent(path, AGENT, environ=environ).value
        assert value.servers == (Address("n", 7443), Address("::1", 7444))
        assert value.metadata == {"site": "cellar", "rack": "3b=c"}
        assert (value.limits.keepalive, value.limits.max_streams) == (2.5, 7)


class TestAgent:
    def test_every_shape(self, path: Path) -> None:
        text = (
            AGENT + "allow: ['*:80', \"10.0.0.0/8:443\"]\nmetadata:\n  site: cellar\nlimits: {connect: 1, drain: 0.5}\n"
        )
        loaded = agent(path, text)
        assert loaded.value.allow == ("*:80", "10.0.0.0/8:443")
        assert loaded.value.metadata == {"site": "cellar"}
        assert (loaded.value.limits.connect, loaded.value.limits.drain) == (1.0, 0.5)
        assert loaded.sources["allow"] == f"file {path}:5"

    def test_what_must_be_given(self, path: Path) -> None:
        assert agent_problems(path, "ca: /ca\n") == [
            "FILE: name: missing; allowed: 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'",
            "FILE: servers: missing; allowed: a list, each host:port, an IPv6 address in brackets",
            "FILE: token: missing; allowed: env:NAME, file:/path, store:path#field, or the secret itself",
        ]

    @pytest.mark.parametrize(
        ("more", "found"),
        [
            ("", "FILE: pins: neither pins nor ca is given: an unverified server would get this agent's token"),
            ("pins: []\n", "4: pins: neither pins nor ca is given: an unverified server would get this agent's token"),
            ("pins: ['x']\n", "4: pins: found 'x'; allowed: a list, each sha256: and 64 lower-case hex digits"),
        ],
    )
    def test_how_the_server_is_verified(self, path: Path, more: str, found: str) -> None:
        assert agent_problems(path, AGENT.replace("ca: /ca\n", more)) == [found]

    def test_empty_servers_and_a_name_without_ca(self, path: Path) -> None:
        text = f"name: a\nservers: []\ntoken: env:T\npins: ['sha256:{'0' * 64}']\nserver_name: x\n"
        assert agent_problems(path, text) == [
            "2: servers: empty: an agent needs at least one server to dial",
            "5: server_name: is compared with a certificate that ca verifies, and no ca is given",
        ]


LISTEN = "host:port, an IPv6 address in brackets; port 0 takes a free one"
NODE_ID = "1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'"
QUOTES = "which YAML takes for no text: put it in quotes"
DATABASE_URL = "found a value that is not shown; allowed: sqlite:////absolute/path or mysql://…"
SECTIONS = "mode, node, database, server, logging"
BAD_SERVER = [
    ("mode: clster", "1: mode: found 'clster'; allowed: cluster or local"),
    ("mode: [a]", "1: mode: found a list; allowed: cluster or local"),
    ("mode: {a: b}", "1: mode: found keys below it; allowed: cluster or local"),
    ("mode: true", f"1: mode: found 'true', {QUOTES}; allowed: cluster or local"),
    ("node:\n  id: 123", f"2: node.id: found '123', {QUOTES}; allowed: {NODE_ID}"),
    ("node: server-a", "1: node: found a single value; allowed: keys of this section below it"),
    ("server:\n- a", "1: server: found a single value; allowed: keys of this section below it"),
    ("- a", f"1: found no keys; allowed: {SECTIONS}"),
    ("server-a", f"1: found no keys; allowed: {SECTIONS}"),
    ("server: {web: {listen: 8000}}", f"1: server.web.listen: found '8000', {QUOTES}; allowed: {LISTEN}"),
    ("server: {web: {listen: ':8000'}}", f"1: server.web.listen: found ':8000'; allowed: {LISTEN}"),
    (
        "server: {relay: {endpoint: 'a:0'}}",
        "1: server.relay.endpoint: found 'a:0'; allowed: host:port, an IPv6 address in brackets",
    ),
    (
        "server: {relay: {endpoint: '0.0.0.0:1'}}",
        "1: server.relay.endpoint: 0.0.0.0:1 means every address; other nodes need one that they can dial",
    ),
    (
        "server: {relay: {cert: /c}}",
        "FILE: server.relay.key: missing, although cert is given: a TLS listener needs both",
    ),
    (
        "server: {agents: {key: /c}}",
        "FILE: server.agents.cert: missing, although key is given: a TLS listener needs both",
    ),
    ("server: {relay: {ca: relative}}", "1: server.relay.ca: found 'relative'; allowed: an absolute path"),
    ("server: {limits: {drain: soon}}", "1: server.limits.drain: found 'soon'; allowed: seconds, from 0 to 3600"),
    ("server: {limits: {drain: .inf}}", "1: server.limits.drain: found '.inf'; allowed: seconds, from 0 to 3600"),
    ("server: {limits: {drain: '30'}}", "1: server.limits.drain: found '30'; allowed: seconds, from 0 to 3600"),
    (
        "server: {limits: {backlog: 1.5}}",
        "1: server.limits.backlog: found '1.5'; allowed: a whole number from 1 to 65536",
    ),
    ("server: {limits: {backlog: 0}}", "1: server.limits.backlog: found '0'; allowed: a whole number from 1 to 65536"),
    (
        "server: {limits: {reconnect_first: 61}}",
        "1: server.limits.reconnect_first: 61 is more than reconnect_longest",
    ),
    (
        "server: {limits: {unauthenticated: 8}}",
        "FILE: server.limits.unauthenticated_per_address: 16 is more than unauthenticated",
    ),
    (
        "logging: {level: debug}",
        "1: logging.level: found 'debug'; allowed: one of DEBUG, INFO, WARNING, ERROR, CRITICAL",
    ),
    ("database: {url: /var/x}", f"1: database.url: {DATABASE_URL}"),
    ("database: {url: 'oracle://u:p@h'}", f"1: database.url: {DATABASE_URL}"),
]


class TestProblems:
    @pytest.mark.parametrize(("text", "found"), BAD_SERVER)
    def test_one(self, path: Path, text: str, found: str) -> None:
        assert problems(path, text) == [found]

    def test_all_of_them_at_once(self, path: Path) -> None:
        text = "mode: x\nlogging:\n  level: y\nserver:\n  web:\n    listen: z\nfoo: 1\n"
        assert [problem.partition(" ")[0] for problem in problems(path, text)] == ["1:", "3:", "6:", "7:"]

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("mod: cluster\n", "1: mod: unknown key; did you mean mode?"),
            ("node:\n  idd: x\n", "2: node.idd: unknown key; did you mean node.id?"),
            ("relay:\n  node_token: x\n", "1: relay: unknown key; did you mean server.relay?"),
            ("node_token: x\n", "1: node_token: unknown key; did you mean server.relay.node_token?"),
            (
                "server: {limits: {keep_alive: 1}}\n",
                "1: server.limits.keep_alive: unknown key; did you mean server.limits.keepalive?",
            ),
            ("qqqqqqqq: 1\n", "1: qqqqqqqq: unknown key"),
            ('"\\e[2J": 1\n', "1: \\x1b[2J: unknown key"),
        ],
    )
    def test_an_unknown_key_is_refused_with_the_nearest(self, path: Path, text: str, found: str) -> None:
        assert problems(path, text) == [found]

    def test_in_the_environment(self, path: Path) -> None:
        assert problems(path, "", environ={"TUNNELMESH_MODE": "x"}) == [
            "environment TUNNELMESH_MODE: mode: found 'x'; allowed: cluster or local"
        ]

    def test_on_the_command_line(self, path: Path) -> None:
        assert problems(path, "", cli={"node.id": "X", "node.ids": "a"}) == [
            "command line: node.id: found 'X'; allowed: 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'",
            "command line: node.ids: unknown key; did you mean node.id?",
        ]

    def test_an_empty_id_on_the_command_line_is_no_id(self, path: Path) -> None:
        assert problems(path, "", cli={"node.id": ""})[0].startswith("command line: node.id: found ''")

    def test_lists_and_names(self, path: Path) -> None:
        text = AGENT + "allow: one\nmetadata: [a]\n"
        assert agent_problems(path, text) == [
            "5: allow: found a single value; allowed: a list, each up to 256 printable characters",
            "6: metadata: found the wrong shape; allowed: names with values, each up to 256 printable characters",
        ]

    def test_control_characters_do_not_reach_names(self, path: Path) -> None:
        assert "found" in agent_problems(path, AGENT + 'metadata: {a: "b\\e[2J"}\n')[0]


class TestSecrets:
    @pytest.mark.parametrize(
        "text",
        [
            f"server: {{relay: {{node_tokn: {CANARY}}}}}\n",
            f"{CANARY}: 1\n",
            f"mode: {CANARY}\n",
            f"server: {{relay: {{node_token: '{CANARY} x'}}}}\n",
            f"server: {{relay: {{node_token: [{CANARY}]}}}}\n",
            f"server: {{relay: {{cert: {CANARY}}}}}\n",
            f"server: {{relay: {{node_token: {CANARY}, key: [}}}}\n",
            f"server: {{relay: {{node_token: {CANARY}\n",
            f"database: {{url: 'x {CANARY}'}}\n",
        ],
    )
    def test_no_error_shows_one(self, path: Path, text: str) -> None:
        with pytest.raises(DomainError) as error:
            server(path, text)
        assert CANARY[:12] not in str(error.value).replace("tmn_********", "")

    def test_printing_the_configuration_shows_none(self, path: Path) -> None:
        text = f"server: {{relay: {{node_token: {CANARY}}}}}\ndatabase: {{url: 'mysql://u:{CANARY}@h/d'}}\n"
        assert CANARY not in repr(server(path, text))

    def test_none_is_taken_from_the_command_line(self, path: Path) -> None:
        (found,) = problems(path, "", cli={"server.relay.node_token": CANARY})
        assert found.startswith("command line: server.relay.node_token: found the secret itself, which every user")
        assert CANARY not in found
        assert server(path, "", cli={"server.relay.node_token": "env:T"}).value.server.relay.node_token is not None


class TestFiles:
    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="There is no configuration file") as error:
            load_server_config(tmp_path / "none.yaml", environ={})
        assert "--config PATH" in error.value.hint

    def test_a_folder_or_a_pipe(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe"):
            with pytest.raises(Refused, match="is not a file"):
                load_server_config(path, environ={})

    def test_unreadable(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def denied(*arguments: object) -> None:
            raise PermissionError(13, "Permission denied")

        path.write_text("")
        monkeypatch.setattr(Path, "open", denied)
        with pytest.raises(Refused, match="cannot be read: Permission denied") as error:
            load_server_config(path, environ={})
        assert error.value.hint == f"Look at it: ls -l {path}"

    def test_no_yaml(self, path: Path) -> None:
        with pytest.raises(Invalid, match=r"server.yaml:2: found no valid YAML"):
            server(path, "node:\n\tid: x\n")
