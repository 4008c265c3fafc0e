"""The load generator: one process for each measurement, which prints one line of JSON."""
