"""From the configuration's bounds to those of a session."""

from relay.bounds import session_limits
from relay.net.engine import TICK
from tunnelmesh.conf.schema import SessionLimits


def test_a_dead_peer_is_noticed_within_the_two_keepalive_times() -> None:
    """P7: 20 s + 15 s, although the ping may leave a tick late and the silence may be judged a tick late."""
    configured = SessionLimits()
    used = session_limits(configured)
    latest = (used.keepalive + TICK) + (used.keepalive_answer + TICK)
    assert latest <= configured.keepalive + configured.keepalive_answer == 35.0
