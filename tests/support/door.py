"""A caller at a node's TLS door that says exactly what a test wants it to say."""

import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.demo.pki import Pair
from relay.demo.ports import LOOPBACK

SECONDS = 20.0


@dataclass(frozen=True)
class Reply:
    """An answer's head, and its body when that is JSON."""

    status: int
    headers: Mapping[str, str]
    problem: dict[str, Any] = field(default_factory=dict)


def call(port: int, path: str, headers: Mapping[str, str], *, pair: Pair | None, folder: Path) -> Reply:
    """Send one upgrade request over TLS 1.3; raises ssl.SSLError or ConnectionError when TLS refuses the caller.

    The acceptor's certificate is not verified: what is tested is what it makes of the caller.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if pair:
        context.load_cert_chain(*pair.write(folder, "caller"))
    request = [f"GET {path} HTTP/1.1", "Host: node", "Connection: Upgrade", "Upgrade: yamux"]
    request += [f"{name}: {value}" for name, value in headers.items()]
    plain = socket.create_connection((LOOPBACK, port), timeout=SECONDS)
    with context.wrap_socket(plain) as tls:
        tls.sendall("\r\n".join([*request, "", ""]).encode())
        return _reply(tls)


def _reply(tls: ssl.SSLSocket) -> Reply:
    with tls.makefile("rb") as stream:
        status = stream.readline().split()
        if not status:
            raise ConnectionResetError("the connection ended before an answer")
        lines = [line.decode().strip() for line in iter(stream.readline, b"\r\n")]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", 0))
        body = stream.read(length) if length else b""
    return Reply(int(status[1]), headers, json.loads(body) if body else {})
