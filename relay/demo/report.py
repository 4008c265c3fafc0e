"""What the demo tells people: what runs where, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import join, quote
from typing import Any
from unicodedata import east_asian_width

from django.utils.translation import gettext as _


def report(demo: dict[str, Any]) -> Iterator[str]:
    """The lines about a running demo; ``demo`` is its demo.json."""
    yield ""
    yield from _table((_("WHAT"), _("WHERE"), _("PROCESS")), list(_listeners(demo)))
    for title, command in _suggestions(demo):
        yield ""
        yield title
        yield f"  {command}"
    yield ""
    yield _("Everything is in %(state)s; for scripts: demo.json there.") % demo
    yield _("Ctrl-C ends it all.")


def _listeners(demo: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for node in demo["nodes"]:
        pid = str(node["pid"])
        for name in node["entries"]:
            entry = next(entry for entry in demo["entries"] if entry["name"] == name)
            yield _("%(id)s, entry for users") % node, f"{entry['host']}:{entry['port']}", pid
        yield _("%(id)s, relay for nodes (mutual TLS)") % node, node["relay"], pid
        yield _("%(id)s, door for agents (TLS)") % node, node["agents"], pid
        yield _("%(id)s, health and metrics") % node, node["admin"], pid
    for agent in demo["agents"]:
        yield _("%(id)s (listens nowhere, dials out)") % agent, "-", str(agent["pid"])
    yield _("the private service behind it"), demo["service"]["url"], str(demo["service"]["pid"])
    yield _("the console"), demo["web"]["admin_url"], str(demo["web"]["pid"])


def _suggestions(demo: dict[str, Any]) -> Iterator[tuple[str, str]]:
    entry, last = demo["entry"], demo["nodes"][-1]
    yield _("Through the tunnel (user, first node, second node, agent, service):"), f"curl {entry['url']}"
    yield _("Ten megabytes through it:"), f"curl -o /dev/null '{entry['url']}bytes?n=10000000'"
    yield _("What a node that may not come in is told (right certificate and token, an old epoch):"), _refused(demo)
    yield _("End the second node; the demo then tells how to start it again:"), f"kill {last['pid']}"
    login = "%(url)s  (%(username)s, %(password)s)"
    yield _("The console, as an administrator:"), login % {"url": demo["web"]["admin_url"], **demo["admin"]}
    yield _("Follow the logs:"), f"tail -f {quote(demo['logs'])}/*.log"


def _refused(demo: dict[str, Any]) -> str:
    """A call at the last node's relay listener, in the first node's name."""
    caller, called = demo["nodes"][0], demo["nodes"][-1]
    files = ["--cacert", demo["ca"], "--cert", caller["cert"], "--key", caller["key"]]
    return (
        f"curl -i --http1.1 -w '\\n' {join(files)}"
        f" -H 'Connection: Upgrade' -H 'Upgrade: yamux' -H 'TunnelMesh-Node: {caller['id']}' -H 'TunnelMesh-Epoch: 0'"
        f' -H "Authorization: Bearer $(cat {quote(demo["token_file"])})" https://{called["relay"]}/relay'
    )


def _table(head: tuple[str, str, str], rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    widths = [max(_columns(row[column]) for row in (head, *rows)) for column in range(3)]
    for row in (head, *rows):
        yield "  ".join(cell + " " * (width - _columns(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()


def _columns(text: str) -> int:
    """The width of a text on a terminal, where a Chinese character takes two columns."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
