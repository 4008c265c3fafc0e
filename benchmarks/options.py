"""The command line of `./dev bench`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.operations import OPERATIONS
from benchmarks.scenarios import SCENARIOS

Number = TypeVar("Number", int, float)

RESULTS = Path(__file__).parent / "results"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Ends the process with 2 and a usage line when it cannot be understood."""
    scenarios = [one.name for one in SCENARIOS]
    operations = [one.name for one in OPERATIONS]
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="Measures TunnelMesh beside bare loopback, OpenSSH and nginx, interleaved in one run. "
        "Only the ratios mean anything: compare nothing between two runs.",
        epilog=_catalogue(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_names(scenarios), default=scenarios, metavar="A,B", help="these scenarios")
    parser.add_argument("--ops", type=_names(operations), default=operations, metavar="A,B", help="these operations")
    parser.add_argument("--rounds", type=_positive(int), default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument(
        "--secs",
        type=_positive(float),
        default=1.0,
        metavar="S",
        help="about how long each measurement lasts (default 1)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="where the raw results go (default: a new file in benchmarks/results)"
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="afterwards run each operation once more on TunnelMesh under perf and py-spy, whichever is there",
    )
    return parser.parse_args(arguments)


def _catalogue() -> str:
    lines = ["scenarios:"]
    lines += [f"  {one.name:14} {one.title} (encrypted legs: {one.legs})" for one in SCENARIOS]
    lines += ["operations:"]
    lines += [f"  {one.name:14} {one.title}" for one in OPERATIONS]
    return "\n".join(lines)


def _names(known: list[str]) -> Callable[[str], list[str]]:
    """A list of names separated by commas, each of them known."""

    def parsed(text: str) -> list[str]:
        asked = text.split(",")
        if unknown := sorted(set(asked) - set(known)):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return [name for name in known if name in asked]

    return parsed


def _positive(kind: Callable[[str], Number]) -> Callable[[str], Number]:
    def parsed(text: str) -> Number:
        value = kind(text)
        if not 0 < value < 1000:
            raise argparse.ArgumentTypeError(f"{text} is not above 0 and below 1000")
        return value

    return parsed
