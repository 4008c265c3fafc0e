"""`python -m benchmarks.load COMMAND --port N ...`: runs one measurement and prints its result or error as JSON."""

import argparse
import json
import sys

from benchmarks.load.bulk import bulk
from benchmarks.load.connect import connect
from benchmarks.load.dial import LoadFailed
from benchmarks.load.idle import idle
from benchmarks.load.latency import latency
from benchmarks.load.pace import pace

_REQUEST_SIZE = 100


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(function: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(getattr(function, "__name__", ""), help=text, description=text)
        made.set_defaults(function=function)
        made.add_argument("--port", type=int, required=True, help="the entry to connect to, on 127.0.0.1")
        return made

    one = command(bulk, "move bytes one way on some streams at once")
    one.add_argument("--streams", type=int, default=1)
    one.add_argument("--length", type=int, default=64 << 20, help="bytes on each stream")
    one.add_argument("--up", action="store_true", help="towards the target (otherwise from it)")
    one.add_argument("--verified", action="store_true", help="check every byte where it arrives")
    one.add_argument("--seconds", type=float, default=60.0, help="fail when it takes longer")

    one = command(pace, "move bytes to the target, at a steady rate, until stdin ends")
    one.add_argument("--rate", type=int, default=50_000_000, help="bytes a second; 0: as many as it can")
    one.add_argument("--seconds", type=float, default=60.0, help="end then even if stdin does not")

    one = command(latency, "round trips on one stream")
    one.add_argument("--seconds", type=float, default=1.0)
    one.add_argument("--size", type=int, default=_REQUEST_SIZE)

    one = command(connect, "connect, one round trip, close")
    one.add_argument("--concurrency", type=int, default=32)
    one.add_argument("--seconds", type=float, default=1.0)
    one.add_argument("--size", type=int, default=_REQUEST_SIZE)

    one = command(idle, "hold open streams until stdin ends")
    one.add_argument("--streams", type=int, default=1000)
    one.add_argument("--seconds", type=float, default=30.0, help="fail when opening them takes longer")
    one.add_argument("--size", type=int, default=_REQUEST_SIZE)
    return parser


def main() -> int:
    options = vars(_parser().parse_args())
    command, function = options.pop("command"), options.pop("function")
    try:
        result = {"command": command, **function(**options)}
    except (LoadFailed, OSError) as error:
        result = {"command": command, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
    return int("error" in result)


if __name__ == "__main__":
    sys.exit(main())
