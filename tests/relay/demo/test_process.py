import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from relay.demo.process import Process, ProcessDied
from relay.demo.wait import NotInTime, wait_until

SECONDS = 10.0
Make = Callable[[str], Process]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Process] = []
    lock = os.open(tmp_path, os.O_RDONLY)

    def of(code: str) -> Process:
        words = (sys.executable, "-uc", code)
        made.append(Process("child", words, log=tmp_path / "child.log", env=os.environ, keep_open=lock))
        return made[-1]

    yield of
    for process in made:
        process.stop(0)
    os.close(lock)


def logs(process: Process, text: str) -> None:
    wait_until(lambda: text in process.tail(), seconds=SECONDS, what=text, watch=lambda: None)


def test_stop_lets_it_end_by_itself(make: Make) -> None:
    process = make("import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('up'); signal.pause()")
    process.start()
    logs(process, "up")
    assert process.stop(SECONDS)
    assert process.wait(0) == 7
    assert not process.running


def test_stop_kills_the_group_of_one_that_does_not_listen(make: Make) -> None:
    process = make(
        "import os, signal; signal.signal(15, signal.SIG_IGN); os.fork(); print('up', os.getpid()); signal.pause()"
    )
    process.start()
    wait_until(lambda: process.tail().count("up") == 2, seconds=SECONDS, what="both", watch=process.check)
    pids = [int(line.split()[1]) for line in process.tail().splitlines()]
    assert not process.stop(0.1)
    assert process.wait(0) == -signal.SIGKILL
    wait_until(lambda: not any(map(alive, pids)), seconds=SECONDS, what="the group is gone", watch=lambda: None)


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie (its reaper, in a container, may never call)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_death_is_told_with_the_end_of_the_log(make: Make) -> None:
    process = make("print('one'); print('the reason'); raise SystemExit(3)")
    process.start()
    process.wait(SECONDS)
    with pytest.raises(ProcessDied, match=r"(?s)child ended \(exit code 3\).*the reason"):
        process.check()


def test_a_killed_one_names_the_signal(make: Make) -> None:
    process = make("import signal; signal.pause()")
    process.start()
    process.check()
    process.kill()
    with pytest.raises(ProcessDied, match="SIGKILL"):
        process.check()


def has_started(process: Process, times: int) -> bool:
    return process.tail().count("up") == times


def test_it_starts_again_and_appends_to_its_log(make: Make) -> None:
    process = make("import signal; print('up'); signal.pause()")
    for count in (1, 2):
        process.start()
        wait_until(partial(has_started, process, count), seconds=SECONDS, what="up", watch=process.check)
        with pytest.raises(ValueError, match="already"):
            process.start()
        process.stop(SECONDS)


def test_ctrl_c_of_the_terminal_does_not_reach_it(make: Make) -> None:
    process = make("import signal; signal.pause()")
    process.start()
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)


def test_one_that_was_never_started(make: Make) -> None:
    process = make("")
    assert process.stop(0)
    assert not process.running
    with pytest.raises(ProcessDied, match="never started"):
        process.check()


def test_waiting_ends_in_bounded_time_and_when_somebody_died() -> None:
    with pytest.raises(NotInTime, match="the moon"):
        wait_until(lambda: False, seconds=0.05, what="the moon", watch=lambda: None)

    def died() -> None:
        raise ProcessDied("process_died", "gone")

    with pytest.raises(ProcessDied):
        wait_until(lambda: False, seconds=SECONDS, what="the moon", watch=died)
