"""Medians, and ratios that are taken inside a round before anything is averaged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.metrics import Metric
from benchmarks.rounds import Sample

Series = Mapping[int, float]  # round -> value


@dataclass(frozen=True)
class Ratio:
    """Above 1 the first of the two is better. `pairs` is the number of rounds that have both."""

    median: float
    lowest: float
    highest: float
    pairs: int


def series(samples: Iterable[Sample], scenario: str, metric: Metric) -> Series:
    """The metric's values of a scenario, by round."""
    return {
        sample.round: sample.values[metric.key]
        for sample in samples
        if sample.scenario == scenario and metric.key in sample.values
    }


def median_of(values: Series) -> float | None:
    return median(values.values()) if values else None


def ratio(first: Series, second: Series, metric: Metric) -> Ratio | None:
    """How much better the first is, paired by round; None when no round has both."""
    pairs = [(first[number], second[number]) for number in first if number in second]
    quotients = [
        (mine / theirs if metric.more_is_better else theirs / mine) for mine, theirs in pairs if mine > 0 and theirs > 0
    ]
    if not quotients:
        return None
    return Ratio(median(quotients), min(quotients), max(quotients), len(quotients))
