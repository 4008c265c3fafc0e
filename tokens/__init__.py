"""Credentials: what exists, who may use it, how it is renewed."""
