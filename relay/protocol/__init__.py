"""The wire protocol, sans-IO: no socket, no clock, no Django. SPEC.md says what is taken from which specification."""
