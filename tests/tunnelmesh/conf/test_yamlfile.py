"""The writer of the identity on real files: R28, and the two promises of P13."""

import errno
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tunnelmesh.common.errors import Conflict, DomainError, Invalid, NotFound, Refused
from tunnelmesh.conf import yamlfile
from tunnelmesh.conf.yamlfile import write_node_id

ID = "server-0123456789abcdef0123456789abcdef"
OTHER = "server-ffffffffffffffffffffffffffffffff"
OLD = "mode: cluster\n# who\nnode:\n  state_dir: /x\n\n# the server\nserver: {}\n"
NEW = OLD.replace("node:\n", f"node:\n  id: {ID}\n")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: owners, mounts, other users")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir()
    path = folder / "server.yaml"
    path.write_text(OLD)
    path.chmod(0o640)
    return path


def listing(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def metadata(path: Path) -> tuple[Any, ...]:
    status = path.stat()
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, attributes


def assert_unchanged(path: Path) -> None:
    assert path.read_text() == OLD
    assert [name for name in listing(path) if "tunnelmesh-new" in name] == []


def test_one_line_more_and_the_same_mode(config: Path) -> None:
    assert write_node_id(config, ID) == ID
    assert config.read_text() == NEW
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert listing(config) == ["server.yaml"]


def test_an_explicit_id_is_never_overwritten(config: Path) -> None:
    write_node_id(config, ID)
    before = config.stat()
    assert write_node_id(config, OTHER) == ID
    assert config.stat() == before


def test_bytes_outside_ascii_stay(config: Path) -> None:
    old = "# Knoten für Zürich 節點\r\nnode:\r\n".encode()
    config.write_bytes(old)
    write_node_id(config, ID)
    assert config.read_bytes() == old + f"  id: {ID}\r\n".encode()


def test_extended_attributes_stay(config: Path) -> None:
    os.setxattr(config, "user.origin", b"ansible")
    os.setxattr(config, "user.empty", b"")
    before = metadata(config)
    write_node_id(config, ID)
    assert metadata(config) == before
    assert before[3]["user.origin"] == b"ansible"


def acl(*, group: int) -> bytes:
    """An access control list in the kernel's form: owner rw-, user 1001 r--, group as given, mask r--, others ---."""
    entries = [
        (0x01, 6, 2**32 - 1),
        (0x02, 4, 1001),
        (0x04, group, 2**32 - 1),
        (0x10, 4, 2**32 - 1),
        (0x20, 0, 2**32 - 1),
    ]
    packed = b"".join(
        tag.to_bytes(2, "little") + mode.to_bytes(2, "little") + who.to_bytes(4, "little") for tag, mode, who in entries
    )
    return (2).to_bytes(4, "little") + packed


@pytest.fixture
def lists_in_folder(config: Path) -> None:
    """The folder gives every new file an access control list; skips where there are none."""
    try:
        os.setxattr(config.parent, "system.posix_acl_default", acl(group=4))
    except OSError:
        pytest.skip("this file system has no access control lists")


@pytest.mark.usefixtures("lists_in_folder")
def test_a_file_without_an_access_control_list_gets_none(config: Path) -> None:
    before = metadata(config)
    write_node_id(config, ID)
    assert metadata(config) == before


@pytest.mark.usefixtures("lists_in_folder")
@pytest.mark.parametrize(("mode", "own"), [(0o640, False), (0o600, False), (0o640, True)])
def test_an_access_control_list_stays(config: Path, mode: int, own: bool) -> None:
    config.unlink()
    config.write_text(OLD)
    config.chmod(mode)
    if own:
        os.setxattr(config, "system.posix_acl_access", acl(group=0))
    before = metadata(config)
    assert "system.posix_acl_access" in before[3]
    write_node_id(config, ID)
    assert metadata(config) == before
    assert config.read_text() == NEW


@pytest.mark.root
@needs_root
def test_owner_and_group_stay(config: Path) -> None:
    os.chown(config, 1001, 1002)
    config.chmod(0o640)
    before = metadata(config)
    write_node_id(config, ID)
    assert metadata(config) == before
    assert before[:3] == (0o640, 1001, 1002)


@pytest.mark.parametrize("link", ["server.yaml", "../etc/server.yaml", "absolute"])
def test_a_symbolic_link_stays_one(config: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "run").mkdir()
    name = tmp_path / ("etc" if link == "server.yaml" else "run") / "link.yaml"
    name.symlink_to(config if link == "absolute" else link)
    second = tmp_path / "second.yaml"
    second.symlink_to(name)
    assert write_node_id(second, ID) == ID
    assert second.is_symlink()
    assert name.is_symlink()
    assert config.read_text() == NEW
    assert not config.is_symlink()


def test_a_file_of_two_names_is_refused(config: Path) -> None:
    twin = config.with_name("twin.yaml")
    twin.hardlink_to(config)
    with pytest.raises(Refused) as refusal:
        write_node_id(config, ID)
    assert refusal.value.code == "several_names"
    assert f"cp -p {config}" in refusal.value.hint
    assert_unchanged(config)
    assert twin.samefile(config)


@pytest.mark.root
@needs_root
def test_a_bind_mounted_file_is_refused(config: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.yaml"
    source.write_text(OLD)
    if subprocess.run(["mount", "--bind", source, config], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        with pytest.raises(Refused) as refusal:
            write_node_id(config, ID)
        assert_unchanged(config)
        assert source.read_text() == OLD
    finally:
        subprocess.run(["umount", config], check=True)
    assert "mount point" in refusal.value.hint
    assert f"tunnelmesh init_node_id --config {config}" in refusal.value.hint


@pytest.mark.root
@needs_root
def test_a_read_only_file_system_is_refused(config: Path) -> None:
    folder = str(config.parent)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        with pytest.raises(Refused, match="Read-only file system; nothing was changed") as refusal:
            write_node_id(config, ID)
        assert_unchanged(config)
    finally:
        subprocess.run(["umount", folder], check=True)
    assert f"tunnelmesh init_node_id --config {config}" in refusal.value.hint


def in_child(act: Callable[[], object]) -> int:
    """Run ``act`` in a forked process; its wait status."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(9)
    return os.waitpid(child, 0)[1]


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("folder_mode", [0o755, 0o777])
def test_another_user_is_told_what_root_must_run(config: Path, folder_mode: int) -> None:
    """With a writable folder the file could be replaced, but its owner could not be kept."""
    os.chown(config, 1001, 1002)
    config.chmod(0o644)
    config.parent.chmod(folder_mode)
    for parent in list(config.parents)[1:4]:  # pytest's own folders are closed to others
        parent.chmod(0o755)

    def as_nobody() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            write_node_id(config, ID)
        except Refused as error:
            os._exit(0 if error.hint == f"Run as root: tunnelmesh init_node_id --config {config}" else 1)

    assert in_child(as_nobody) == 0
    assert_unchanged(config)


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="not a regular file"):
        write_node_id(tmp_path / "pipe", ID)


@pytest.mark.parametrize("name", ["absent.yaml", "dangling.yaml", "no/such/folder.yaml"])
def test_a_missing_file_is_not_made(config: Path, name: str) -> None:
    (config.parent / "dangling.yaml").symlink_to("nowhere")
    with pytest.raises(NotFound):
        write_node_id(config.parent / name, ID)
    assert listing(config) == ["dangling.yaml", "server.yaml"]


def test_a_folder_and_a_loop_of_links_are_refused(config: Path) -> None:
    (config.parent / "loop").symlink_to("loop")
    for name in (config.parent, config.parent / "loop"):
        with pytest.raises(Refused):
            write_node_id(name, ID)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"node:\n  id: \xff\n", "not UTF-8 at byte 12"),
        ("node:\n".encode("utf-16"), "not UTF-8 at byte 0"),
        (b"# " + b"x" * 200_000, "larger than 131072 bytes"),
        (b"node: [", "no valid YAML"),
        (b"node: \x00", "a character that YAML does not allow"),
    ],
)
def test_what_is_no_configuration_stays_as_it_is(config: Path, content: bytes, found: str) -> None:
    config.write_bytes(content)
    with pytest.raises(Invalid, match=found):
        write_node_id(config, ID)
    assert config.read_bytes() == content
    assert listing(config) == ["server.yaml"]


def test_what_a_killed_process_left_is_replaced(config: Path) -> None:
    (config.parent / ".server.yaml.tunnelmesh-new").write_text("half a fi")
    assert write_node_id(config, ID) == ID
    assert config.read_text() == NEW
    assert listing(config) == ["server.yaml"]


def test_many_at_once_end_with_one_id(config: Path) -> None:
    barrier = threading.Barrier(8)
    results: list[str] = []

    def race(number: int) -> None:
        barrier.wait()
        results.append(write_node_id(config, f"server-{number}"))

    threads = [threading.Thread(target=race, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert len(set(results)) == 1
    assert config.read_text() == NEW.replace(ID, results[0])
    assert listing(config) == ["server.yaml"]


def test_a_lock_that_never_ends_is_a_conflict(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlfile, "LOCK_ATTEMPTS", 3)
    monkeypatch.setattr(yamlfile, "LOCK_PAUSE_SECONDS", 0)
    with yamlfile._locked(config.parent), pytest.raises(Conflict) as conflict:
        write_node_id(config, ID)
    assert conflict.value.code == "config_locked"
    assert_unchanged(config)
    assert write_node_id(config, ID) == ID


def test_a_change_by_an_editor_meanwhile_is_not_lost(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(text: str, node_id: str, *, name: str) -> str:
        config.write_text(OLD + "# a thought\n")
        return NEW

    monkeypatch.setattr(yamlfile, "with_id", slowly)
    with pytest.raises(Conflict) as conflict:
        write_node_id(config, ID)
    assert conflict.value.code == "config_changed"
    assert config.read_text() == OLD + "# a thought\n"
    assert listing(config) == ["server.yaml"]


class Os:
    """The module `os` for the writer, which counts the system calls and does ``act`` before the n-th.

    It writes seven bytes a time, so that a call also falls between two halves of the content.
    """

    def __init__(self, n: int, act: Callable[[str], object]) -> None:
        self.calls: list[str] = []
        self._n = n
        self._act = act

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if not callable(real) or name in ("geteuid", "stat_result"):
            return real

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) == self._n:
                self._act(name)
            if name == "write":
                arguments = (arguments[0], arguments[1][:7])
            return real(*arguments, **named)

        return call


def each_call(config: Path) -> Iterator[int]:
    """1 to the number of system calls that one write makes."""
    counting = Os(0, lambda name: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yamlfile, "os", counting)
        write_node_id(config, ID)
    expected = {
        "open",
        "fstat",
        "read",
        "listxattr",
        "getxattr",
        "setxattr",
        "unlink",
        "fchown",
        "fchmod",
        "write",
        "fsync",
        "stat",
        "replace",
        "close",
    }
    assert set(counting.calls) == expected
    assert counting.calls.count("write") > 5
    yield from range(1, len(counting.calls) + 1)


def renewed(config: Path) -> None:
    config.unlink()
    config.write_text(OLD)
    config.chmod(0o640)
    os.setxattr(config, "user.origin", b"ansible")


def test_killed_at_any_system_call_the_file_is_the_old_or_the_new_one(config: Path) -> None:
    renewed(config)
    before, seen = metadata(config), set()

    def dying(n: int) -> None:
        yamlfile.os = Os(n, lambda name: os.kill(os.getpid(), signal.SIGKILL))  # type: ignore[assignment]
        write_node_id(config, ID)

    for n in each_call(config):
        renewed(config)
        assert os.WTERMSIG(in_child(lambda n=n: dying(n))) == signal.SIGKILL
        content = config.read_text()
        assert content in (OLD, NEW)
        assert metadata(config) == before
        seen.add(content)
        assert write_node_id(config, OTHER) == (ID if content == NEW else OTHER)
        assert config.read_text().replace(OTHER, ID) == NEW
        assert metadata(config) == before
        assert listing(config) == ["server.yaml"]
    assert seen == {OLD, NEW}


def outcome(config: Path) -> str:
    try:
        return write_node_id(config, ID)
    except DomainError as error:
        return error.code


def test_an_error_at_any_system_call_changes_nothing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed(config)
    outcomes = []

    def fail(name: str) -> None:
        if name not in ("close", "unlink"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    for n in each_call(config):
        renewed(config)
        with monkeypatch.context() as patch:
            patch.setattr(yamlfile, "os", Os(n, fail))
            outcomes.append(outcome(config))
        assert config.read_text() == (OLD if outcomes[-1] == "config_not_writable" else NEW)
        assert listing(config) == ["server.yaml"]
    assert outcomes.count("config_not_writable") > 15
    assert set(outcomes) == {"config_not_writable", "not_confirmed", ID}


def test_the_hint_without_root_is_to_be_root(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*arguments: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "replace", denied)
    with pytest.raises(Refused, match="Permission denied; nothing was changed") as refusal:
        write_node_id(config, ID)
    assert refusal.value.hint == f"Run as root: tunnelmesh init_node_id --config {config}"
    assert_unchanged(config)


def test_a_file_system_without_attributes(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(descriptor: int) -> list[str]:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "listxattr", unsupported)
    assert write_node_id(config, ID) == ID
    assert config.read_text() == NEW


def test_interrupted_by_a_person_it_leaves_nothing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_node_id(config, ID)
    assert_unchanged(config)
    assert listing(config) == ["server.yaml"]
