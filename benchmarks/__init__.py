"""The public benchmark: TunnelMesh beside bare loopback and what Debian offers, interleaved in one run."""
