"""What is measured, in the order in which it is printed."""

from benchmarks.scenarios import loopback, nginx, openssh, tunnelmesh

SCENARIOS = (*tunnelmesh.SCENARIOS, *loopback.SCENARIOS, *openssh.SCENARIOS, *nginx.SCENARIOS)
