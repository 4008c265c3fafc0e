"""Hypothesis without its deadline: a busy machine is not a fault."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
