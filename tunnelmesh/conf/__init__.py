"""The YAML configuration: schema, loading with the source of every value, and the one writer of a file."""
