"""Ratios are paired by round, and above 1 always means that the first of the two is better."""

from benchmarks.metrics import Metric
from benchmarks.ratios import Ratio, median_of, ratio, series
from benchmarks.rounds import Sample

RATE = Metric("rate", "rate", "MB/s", more_is_better=True)
TIME = Metric("time", "time", "us")


def test_rounds_are_paired_before_the_median() -> None:
    mine, theirs = {0: 10.0, 1: 100.0, 2: 30.0}, {0: 10.0, 1: 50.0, 2: 10.0}
    assert ratio(mine, theirs, RATE) == Ratio(median=2.0, lowest=1.0, highest=3.0, pairs=3)
    assert ratio(mine, theirs, TIME) == Ratio(median=0.5, lowest=1 / 3, highest=1.0, pairs=3)


def test_a_round_that_one_of_them_missed_is_left_out() -> None:
    assert ratio({0: 1.0, 2: 8.0}, {1: 1.0, 2: 4.0}, RATE) == Ratio(2.0, 2.0, 2.0, pairs=1)
    assert ratio({0: 1.0}, {1: 1.0}, RATE) is None
    assert ratio({0: 1.0}, {0: 0.0}, RATE) is None


def test_series_are_taken_from_the_samples() -> None:
    samples = [
        Sample(0, "a", "x", {"rate": 1.0}),
        Sample(0, "b", "x", {"rate": 2.0}),
        Sample(1, "a", "x", error="LoadFailed: stalled"),
        Sample(2, "a", "x", {"rate": 5.0}),
    ]
    assert series(samples, "a", RATE) == {0: 1.0, 2: 5.0}
    assert median_of(series(samples, "a", RATE)) == 3.0
    assert median_of({}) is None
