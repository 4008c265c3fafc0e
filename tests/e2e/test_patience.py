"""Time alone ends nothing: a late answer arrives, and an idle stream stays, over more than one keepalive (20 s)."""

from relay.demo import check
from relay.demo.service import GREETING
from relay.demo.topology import Topology

MILLISECONDS, SECONDS = 30_000, 60.0


def test_first_byte_late_and_a_stream_idle_meanwhile(mesh: Topology) -> None:
    entry = mesh.entries["web"]
    with check.request(entry, "POST", "/echo", body=10) as idle:
        idle.send([b"hello"])
        idle.expect([b"hello"], what="before")
        with check.request(entry, "GET", f"/slow?milliseconds={MILLISECONDS}") as late:
            late.socket.settimeout(MILLISECONDS / 1000 + SECONDS)
            late.expect([GREETING], what="late answer")
        idle.send([b"world"])
        idle.expect([b"world"], what="after")
