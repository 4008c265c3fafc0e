"""Databases: from the address in the configuration to what Django needs."""
