"""The doors for users' traffic. Nothing here knows Django, nodes or tokens."""
