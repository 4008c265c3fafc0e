import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from relay.demo.folder import Folder
from tunnelmesh.common.errors import Conflict, Refused


def test_new_folder_is_private(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a" / "demo")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    path = folder.write_private("x.yaml", "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    folder.close()


def test_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    tmp_path.chmod(0o755)
    with pytest.raises(Refused, match="nothing was written"):
        Folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(Refused, match="not a folder"):
        Folder(path)


def test_secret_stays_over_runs(tmp_path: Path) -> None:
    first = Folder(tmp_path)
    secret = first.secret("password")
    first.close()
    second = Folder(tmp_path)
    assert second.secret("password") == secret != second.secret("another")
    second.close()


def test_second_demo_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.describe({"pids": {"node-a": 4711, "node-b": None}})
    with pytest.raises(Conflict, match="4711") as caught:
        Folder(tmp_path)
    assert "--state" in caught.value.hint
    folder.close()
    Folder(tmp_path).close()


def test_child_left_behind_keeps_the_folder_locked(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[folder.lock_fd])
    folder.close()
    with pytest.raises(Conflict):
        Folder(tmp_path)
    child.communicate(b"\n")
    Folder(tmp_path).close()


def test_description_is_private_json(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.describe({"pids": {}})
    assert json.loads(path.read_text()) == {"pids": {}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    folder.close()
    assert list((folder.path / "logs").iterdir()) == []
