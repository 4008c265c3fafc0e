"""The asyncio shell around the protocol: sockets, TLS and time. Nothing here knows Django, nodes or tokens."""
