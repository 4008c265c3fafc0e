"""`manage.py issue_token`: the secret alone on standard output, everything else on standard error, exit codes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.support.fleet import disable, register
from tokens.authenticate import authenticate
from tokens.models import ServiceToken
from tokens.principal import AgentPrincipal, Door, NodePrincipal
from tokens.scope import Allowlist, Fleet
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.errors import ExitCode
from tunnelmesh.common.secrets import Secret
from tunnelmesh.db.clock import database_now

pytestmark = pytest.mark.django_db(transaction=True)
FLEET = ("--type", "server_node", "--name", "fleet", "--fleet")


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("issue_token", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_standard_output_is_the_secret_and_nothing_else() -> None:
    out, err = run(*FLEET)
    assert out.endswith("\n")
    principal = authenticate(Secret(out.removesuffix("\n")), Door.RELAY, now=database_now())
    assert isinstance(principal, NodePrincipal)
    assert principal.scope == Fleet()
    assert out.strip() not in err
    assert out.strip()[:12] not in err
    for told in ("server.relay.node_token", "fleet", "never", out[:8]):
        assert told in err


def test_an_allowlist() -> None:
    register("server-a")
    register("server-b")
    out, _ = run("--type", "server_node", "--name", "two", "--node", "server-a", "--node", "server-b")
    principal = authenticate(Secret(out.strip()), Door.RELAY, now=database_now())
    assert isinstance(principal, NodePrincipal)
    assert principal.scope == Allowlist(frozenset({"server-a", "server-b"}))


def test_an_agents_token_that_expires() -> None:
    before = database_now()
    out, err = run("--type", "agent", "--name", "printer", "--agent", "agent-1", "--expires", "90d")
    principal = authenticate(Secret(out.strip()), Door.AGENT, now=database_now())
    assert isinstance(principal, AgentPrincipal)
    assert principal.agent_id == "agent-1"
    assert principal.token_expires_at is not None
    assert before + timedelta(days=90) <= principal.token_expires_at <= database_now() + timedelta(days=90)
    assert "agent's YAML" in err


def test_who_did_it() -> None:
    run(*FLEET)
    assert AuditEvent.objects.get().actor.startswith("command:issue_token uid:")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--type", "server_node", "--name", "x", "--node", "server-x"), "server-x (unknown)"),
        (("--type", "server_node", "--name", "x", "--node", "server-off"), "server-off (disabled)"),
        (("--type", "server_node", "--name", "x", "--agent", "agent-1"), "cannot have a scope"),
        (("--type", "agent", "--name", "x", "--fleet"), "cannot have a scope"),
        (("--type", "agent", "--name", "x", "--agent", "Not An Id"), "is not an agent id"),
        (("--type", "agent", "--name", "x", "--agent", ""), "is not an agent id"),
        ((*FLEET, "--expires", "soon"), "no end of validity"),
        ((*FLEET, "--expires", "2001-01-01"), "not in the future"),
        (("--type", "server_node", "--name", "a\nb", "--fleet"), "U+000A"),
    ],
)
def test_bad_values_write_nothing(arguments: tuple[str, ...], told: str) -> None:
    register("server-off")
    disable("server-off")
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == ExitCode.USAGE
    assert told in str(caught.value)
    assert not ServiceToken.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--type", "server_node", "--name", "x"),
        ("--type", "server_node", "--fleet"),
        ("--type", "client", "--name", "x", "--fleet"),
        (*FLEET, "--node", "server-a"),
        (*FLEET, "--agent", "agent-1"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"required|invalid choice|not allowed"):
        run(*arguments)
    assert not ServiceToken.objects.exists()


def test_as_a_process(tmp_path: Path) -> None:
    """A database without our tables, then one with them: exit codes, and what goes where."""
    config = tmp_path / "server.yaml"
    config.write_text(f"database:\n  url: sqlite:///{tmp_path}/fleet.sqlite3\n")

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "tunnelmesh.settings.dev", "TUNNELMESH_CONFIG": str(config)},
            capture_output=True,
            text=True,
            check=False,
        )

    without = manage("issue_token", *FLEET)
    assert (without.returncode, without.stdout) == (ExitCode.FAILED, "")
    assert "migrate" in without.stderr
    assert not (tmp_path / "fleet.sqlite3").exists()
    assert manage("migrate").returncode == ExitCode.OK

    done = manage("issue_token", *FLEET)
    assert done.returncode == ExitCode.OK
    assert len(done.stdout) == 4 + 43 + 6 + 1
    assert done.stdout.strip() not in done.stderr
    assert "Traceback" not in done.stderr
    assert manage("issue_token", *FLEET[:-1], "--node", "server-x").returncode == ExitCode.USAGE
    assert manage("issue_token").returncode == ExitCode.USAGE
