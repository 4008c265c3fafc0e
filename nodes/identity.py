"""Who this node is: finds, generates and persists its id (F12-F16, T6, T10)."""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from django.utils.translation import gettext as _

from tunnelmesh.common.errors import DomainError, Refused
from tunnelmesh.common.ids import check_node_id, generate_node_id, is_node_id
from tunnelmesh.conf.load import DEFAULT, Loaded
from tunnelmesh.conf.schema import ServerConfig
from tunnelmesh.conf.yamlfile import write_node_id

STATE_FILE_NAME = "node-id"
LOCAL_NODE_ID = "local"
_STATE_FILE_MAX_BYTES = 256


class Origin(StrEnum):
    EXPLICIT = "explicit"
    STATE_FILE = "state file"
    GENERATED = "generated"
    LOCAL = "local mode"


@dataclass(frozen=True, slots=True)
class Identity:
    """A node's id. ``source`` says where it was found, ``written`` which file has it now because of this call.

    ``unwritten`` is why an id from the state file could not be put into the configuration; it serves nevertheless.
    """

    node_id: str
    origin: Origin
    source: str
    written: Path | None = None
    unwritten: DomainError | None = None


def decide(*, mode: str, explicit: bool, state_file: bool) -> Origin:
    """Where the id comes from: an explicit one always wins, and only cluster mode looks further (F13, F14)."""
    if explicit:
        return Origin.EXPLICIT
    if mode == "local":
        return Origin.LOCAL
    return Origin.STATE_FILE if state_file else Origin.GENERATED


def find_identity(loaded: Loaded[ServerConfig]) -> Identity | None:
    """The id that this node has, or None as long as it has none. Reads only, so that every command may ask (T6).

    Raises Refused for a state file that cannot be trusted.
    """
    node, mode = loaded.value.node, loaded.value.mode
    state_file = node.state_dir / STATE_FILE_NAME
    kept = _read_state_file(state_file) if node.id is None and mode == "cluster" else None
    origin = decide(mode=mode, explicit=node.id is not None, state_file=kept is not None)
    found = {
        Origin.EXPLICIT: (node.id, loaded.sources["node.id"]),
        Origin.STATE_FILE: (kept, f"state file {state_file}"),
        Origin.LOCAL: (LOCAL_NODE_ID, DEFAULT),
    }
    node_id, source = found.get(origin, (None, ""))
    return None if node_id is None else Identity(node_id, origin, source)


def ensure_identity(
    loaded: Loaded[ServerConfig], *, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> Identity:
    """The id that this node has, or a new one; an id of the state file and a new one are written into the YAML.

    Only `run`, `run_relay` and `init_node_id` may call this (T6). Raises DomainError when a new id cannot be written:
    nothing has changed then (T10). Of two calls at once both return the same id.
    """
    identity = find_identity(loaded)
    if identity is None:
        return _persist(loaded, Identity(generate_node_id(random_bytes), Origin.GENERATED, "generated"))
    if identity.origin is not Origin.STATE_FILE:
        return identity
    try:
        return _persist(loaded, identity)
    except DomainError as error:
        return replace(identity, unwritten=error)


def _persist(loaded: Loaded[ServerConfig], identity: Identity) -> Identity:
    if loaded.path is None:
        raise Refused(
            "no_config",
            _("There is no configuration file to write the node id into; nothing was changed."),
            hint=_("Run: tunnelmesh init_node_id --config /etc/tunnelmesh/server.yaml"),
        )
    written = check_node_id(write_node_id(loaded.path, identity.node_id))
    if written != identity.node_id:  # another process was faster
        return Identity(written, Origin.EXPLICIT, f"file {loaded.path}")
    return replace(identity, written=loaded.path)


def _read_state_file(path: Path) -> str | None:
    """The id that the state file holds, None when there is no such file.

    Root reads a folder here that the service user owns: a link, a pipe, a device or a huge file is refused, and what a
    refused file holds is never shown.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = _("is a symbolic link") if error.errno == errno.ELOOP else str(error.strerror)
        raise _distrusted(path, why) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _distrusted(path, _("is not a regular file"))
        content = os.read(descriptor, _STATE_FILE_MAX_BYTES)
    finally:
        os.close(descriptor)
    text = content.decode("ascii", "replace").removesuffix("\n")
    if not is_node_id(text):
        raise _distrusted(path, _("does not hold a node id"))
    return text


def _distrusted(path: Path, why: str) -> Refused:
    return Refused(
        "bad_state_file",
        _("The state file %(path)s cannot be used: %(why)s.") % {"path": path, "why": why},
        hint=_("Look at it (ls -l %(path)s); set node.id in the configuration, or remove the file to get a new id.")
        % {"path": path},
    )
