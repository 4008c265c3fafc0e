"""Django settings: what is common in `base`; what differs in `dev`, `test` and `production`."""
