"""The one writer of a YAML file: puts the node id in and changes no other byte, mode, owner or attribute (F16).

Killed at any point, the file is the old one or the new one (P13). What cannot be done so is refused, nothing changed.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tunnelmesh.common.clock import sleep
from tunnelmesh.common.errors import Conflict, DomainError, NotFound, Refused
from tunnelmesh.conf.yamlsplice import explicit_id, with_id
from tunnelmesh.conf.yamltree import MAX_BYTES, decode

LOCK_ATTEMPTS, LOCK_PAUSE_SECONDS = 100, 0.1


class _Old(NamedTuple):
    """The file as it was read."""

    status: os.stat_result
    attributes: dict[str, bytes]
    content: bytes


def write_node_id(path: Path, node_id: str) -> str:
    """Make ``node_id`` the `node.id` of the file and return it; or return the id that is already there, unchanged.

    A symbolic link is followed. Of two callers at once, the second returns the id of the first. Raises NotFound,
    Invalid (no YAML), Conflict (locked, or changed meanwhile) or Refused (no safe place, no permission, a mount,
    several names); the file is then as it was, and the error's hint is what an operator must do (T10).
    """
    try:
        target = Path(os.path.realpath(path, strict=True))
        with _locked(target.parent) as folder:
            old = _read(target, folder)
            text = decode(old.content, name=str(path))
            found = explicit_id(text, name=str(path))
            if found is not None:
                return found
            _replace(target, folder, old=old, new=with_id(text, node_id, name=str(path)).encode())
    except FileNotFoundError:
        raise NotFound("no_config", f"There is no configuration file {path}", hint=f"Look: ls -l {path}") from None
    except OSError as error:
        raise _refusal(path, error) from None
    return node_id


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """The folder's descriptor, locked: a lock on the file itself would end with the file that is replaced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(LOCK_ATTEMPTS):
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            sleep(LOCK_PAUSE_SECONDS)
        else:
            raise Conflict(
                "config_locked",
                f"{folder} is locked by another process.",
                hint=f"Find it, then retry: fuser -v {folder}",
            )
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(name: str, folder: int, flags: int) -> Iterator[int]:
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(target: Path, folder: int) -> _Old:
    # O_NONBLOCK: opening a pipe that someone put in the place of the file must not wait.
    with _opened(target.name, folder, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("not_a_file", f"{target} is not a regular file.", hint="Name a file: --config PATH")
        content = b""
        while len(content) <= MAX_BYTES and (more := os.read(descriptor, MAX_BYTES)):
            content += more
        return _Old(status, _attributes(descriptor), content)


def _attributes(descriptor: int) -> dict[str, bytes]:
    """Extended attributes, access control lists and security labels included; none where the file system has none."""
    try:
        return {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _replace(target: Path, folder: int, *, old: _Old, new: bytes) -> None:
    if old.status.st_nlink > 1:
        raise Refused(
            "several_names",
            f"{target} has {old.status.st_nlink} names (hard links), and the others would keep the old content.",
            hint=f"Part it from them, then repeat: cp -p {target} {target}.new && mv {target}.new {target}",
        )
    temporary = f".{target.name}.tunnelmesh-new"
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)  # what a killed process left
    try:
        _write(temporary, folder, old=old, new=new)
        _refuse_if_changed(target, folder, old)
        os.replace(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _confirm(target, folder)


def _write(temporary: str, folder: int, *, old: _Old, new: bytes) -> None:
    with _opened(temporary, folder, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        os.fchown(descriptor, old.status.st_uid, old.status.st_gid)
        _give_attributes(descriptor, old.attributes)
        os.fchmod(descriptor, stat.S_IMODE(old.status.st_mode))
        rest = new
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)


def _give_attributes(descriptor: int, wanted: dict[str, bytes]) -> None:
    """Touches only those that differ: a label that the folder gives already may need a right to be set again."""
    inherited = _attributes(descriptor)
    for name in inherited.keys() - wanted.keys():
        os.removexattr(descriptor, name)
    for name, value in wanted.items():
        if inherited.get(name) != value:
            os.setxattr(descriptor, name, value)


def _refuse_if_changed(target: Path, folder: int, old: _Old) -> None:
    now = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    if (now.st_ino, now.st_size, now.st_ctime_ns) != (old.status.st_ino, old.status.st_size, old.status.st_ctime_ns):
        raise Conflict("config_changed", f"{target} was changed by another just now.", hint="Repeat the command.")


def _confirm(target: Path, folder: int) -> None:
    """Make the new name survive a power cut. The file is the new one already, so this refusal must say so."""
    try:
        os.fsync(folder)
    except OSError as error:
        raise DomainError(
            "not_confirmed",
            f"{target} holds the node id, but the disk did not confirm it: {error.strerror}",
            hint="See the kernel's log (dmesg), then repeat the command.",
        ) from None


def _refusal(path: Path, error: OSError) -> Refused:
    command = f"tunnelmesh init_node_id --config {path}"
    if error.errno == errno.EBUSY:
        hint = f"It is a mount point (a bind mount?). Run it where the file itself is, outside: {command}"
    elif os.geteuid():
        hint = f"Run as root: {command}"
    else:
        hint = (
            f"Make the file and its folder writable (findmnt -T {path}; lsattr -d {path.parent}), then run: {command}"
        )
    return Refused(
        "config_not_writable", f"{path} cannot be replaced: {error.strerror}; nothing was changed.", hint=hint
    )
