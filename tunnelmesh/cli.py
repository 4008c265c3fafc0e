"""The `tunnelmesh` script and `manage.py`: Django's command line with hyphens allowed and `--config` heard early."""

import argparse
import os
import sys
from collections.abc import Sequence

import django
from django.core.management import execute_from_command_line

from tunnelmesh import __version__
from tunnelmesh.common.errors import ExitCode
from tunnelmesh.conf.options import VARIABLE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Settings default to production, so that nothing insecure starts by being forgotten.

    `init-node-id` and `init_node_id` are one command (T5). `--config PATH` becomes TUNNELMESH_CONFIG, because the
    database address is in that file and Django reads its settings before a command sees its own arguments; so every
    command takes it, Django's own (`migrate`) among them.
    """
    program, *arguments = sys.argv if argv is None else argv
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tunnelmesh.settings.production")
    arguments, config = take_config(arguments)
    if config is not None:
        os.environ[VARIABLE] = config
    if arguments[:1] in (["--version"], ["version"]):
        sys.stdout.write(f"TunnelMesh {__version__} (Django {django.get_version()})\n")
        return ExitCode.OK
    if arguments:
        arguments[0] = arguments[0].replace("-", "_") if not arguments[0].startswith("-") else arguments[0]
    try:
        execute_from_command_line([program, *arguments])
    except ModuleNotFoundError as error:
        if error.name != os.environ["DJANGO_SETTINGS_MODULE"]:
            raise
        sys.stderr.write(f"DJANGO_SETTINGS_MODULE (or --settings) names {error.name}, and there is no such module.\n")
        sys.stderr.write("Unset it, or name tunnelmesh.settings.production.\n")
        return ExitCode.REFUSED_CONFIG
    return ExitCode.OK


def take_config(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments without `--config PATH` and `--config=PATH`, and the value of the last; what follows a bare `--` is
    not ours."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", metavar="PATH")
    found, rest = parser.parse_known_args(arguments[:end])
    return [*rest, *arguments[end:]], found.config
