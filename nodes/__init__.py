"""Server nodes: who they are, are they alive, what do they carry."""
