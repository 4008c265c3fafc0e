"""A whole mesh on one machine, of real processes: for the demo, the end-to-end tests and the benchmarks."""
