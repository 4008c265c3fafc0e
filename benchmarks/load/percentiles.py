"""Percentiles of latencies."""

from collections.abc import Sequence

# Fewer samples than this say nothing about the slowest hundredth.
_SAMPLES_FOR_P99 = 100


def percentiles(nanoseconds: Sequence[int]) -> dict[str, float | None]:
    """p50 and p99 in microseconds (None: too few samples), and the number of samples."""
    ordered = sorted(nanoseconds)
    count = len(ordered)
    return {
        "samples": count,
        "p50": ordered[count // 2] / 1000 if count else None,
        "p99": ordered[count * 99 // 100] / 1000 if count >= _SAMPLES_FOR_P99 else None,
    }
