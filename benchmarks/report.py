"""The printed result: medians of this run, and TunnelMesh's ratios to everything else in it."""

from collections.abc import Sequence

from benchmarks.metrics import METRICS
from benchmarks.ratios import Ratio, median_of, ratio, series
from benchmarks.rounds import Sample
from benchmarks.scenarios.scenario import Scenario

_LEGS = ("no encryption", "1 encrypted leg", "2 encrypted legs")


def report(scenarios: Sequence[Scenario], samples: Sequence[Sample]) -> str:
    """Everything, as Markdown tables that can also be read in a terminal."""
    measured = [one for one in scenarios if any(sample.scenario == one.name for sample in samples if sample.values)]
    parts = ["Medians (compare inside this run only)", _medians(measured, samples)]
    for ours in measured:
        others = [one for one in measured if one.legs in (0, ours.legs) and not one.ours]
        if ours.ours and others:
            parts += [
                f"{ours.title} against the rest: ratio, lowest and highest of the rounds; above 1 TunnelMesh is better",
                _ratios(ours, others, samples),
            ]
    if failures := [_failure(sample) for sample in samples if sample.error or sample.values.get("failed")]:
        parts += ["Failures", "\n".join(failures)]
    return "\n\n".join(parts)


def _medians(scenarios: Sequence[Scenario], samples: Sequence[Sample]) -> str:
    rows = [["", "unit", *(one.title for one in scenarios)], ["", "", *(_LEGS[one.legs] for one in scenarios)]]
    for metric in METRICS:
        values = [median_of(series(samples, one.name, metric)) for one in scenarios]
        if any(value is not None for value in values):
            rows.append([metric.title, metric.unit, *map(_number, values)])
    return _table(rows)


def _ratios(ours: Scenario, others: Sequence[Scenario], samples: Sequence[Sample]) -> str:
    rows = [["", *(one.title for one in others)]]
    for metric in METRICS:
        mine = series(samples, ours.name, metric)
        found = [ratio(mine, series(samples, one.name, metric), metric) for one in others]
        if any(found):
            rows.append([metric.title, *map(_spread, found)])
    return _table(rows)


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"


def _spread(found: Ratio | None) -> str:
    if found is None:
        return "-"
    middle, lowest, highest = (_number(value, 2) for value in (found.median, found.lowest, found.highest))
    return f"{middle} ({lowest}-{highest})"


def _failure(sample: Sample) -> str:
    what = sample.error or f"{sample.values['failed']:.0f} connections failed"
    when = f"round {sample.round + 1}" if sample.round >= 0 else "before the first round"
    return f"- {sample.scenario}, {sample.operation}, {when}: {what}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
