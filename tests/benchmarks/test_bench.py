"""`python -m benchmarks` from end to end, on the scenario that needs nothing installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import present
from benchmarks.options import parse
from benchmarks.report import report
from benchmarks.rounds import Sample
from benchmarks.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {one.name: one for one in SCENARIOS}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_loopback(tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    operations = ["up1", "down1", "up8", "down8", "latency", "saturated", "connect"]
    run = bench(
        "--only", "loopback", "--ops", ",".join(operations), "--rounds", "2", "--secs", "0.05", "--json", str(raw)
    )
    assert run.returncode == 0, run.stderr
    assert "bare loopback" in run.stdout
    samples = json.loads(raw.read_text())["samples"]
    assert {sample["round"] for sample in samples} == {0, 1}
    assert {sample["operation"] for sample in samples} == set(operations)
    assert not any(sample["error"] for sample in samples)


@pytest.mark.parametrize("arguments", [("--only", "frp"), ("--ops", "up9"), ("--rounds", "0"), ("--secs", "x")])
def test_what_it_does_not_know_ends_with_2(arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(list(arguments))
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_an_absent_peer_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.scenarios.scenario.program", lambda _name: None)
    assert present([BY_NAME["loopback"], BY_NAME["openssh-R"]]) == [BY_NAME["loopback"]]
    assert "absent: OpenSSH -R; to have it: apt-get install openssh-server" in capsys.readouterr().err


def test_ratios_are_printed_only_between_equal_numbers_of_legs() -> None:
    names = ("tunnelmesh-1", "tunnelmesh-2", "loopback", "openssh-R", "openssh-LR")
    samples = [Sample(0, name, "up1", {"up1": 100.0}) for name in names]
    text = report([BY_NAME[name] for name in names], samples)
    one, two = text.split("against the rest")[1:]
    assert "OpenSSH -R" in one
    assert "OpenSSH -L" not in one
    assert "OpenSSH -L" in two
    assert "1 (1-1)" in two


def test_failures_are_printed() -> None:
    samples = [
        Sample(-1, "openssh-R", "start", error="NotStarted: nothing listens"),
        Sample(1, "loopback", "connect", {"connect_rate": 10.0, "failed": 3}),
    ]
    text = report([BY_NAME["loopback"], BY_NAME["openssh-R"]], samples)
    assert "- openssh-R, start, before the first round: NotStarted: nothing listens" in text
    assert "- loopback, connect, round 2: 3 connections failed" in text
