"""The `tunnelmesh` script and `manage.py`: Django's command line with hyphens allowed, `--config` heard early, and
the messages in the language of the caller's locale."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

import django
from django.apps import apps
from django.conf import settings
from django.core.management import BaseCommand, ManagementUtility
from django.db import OperationalError
from django.utils import translation

from tunnelmesh import __version__
from tunnelmesh.common.errors import ExitCode
from tunnelmesh.conf.options import VARIABLE

LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


class _Commands(ManagementUtility):
    """Django's, which knows no locale: what a command prints is in the language of the caller's."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand)
        if apps.ready:  # not when the settings could not be loaded
            translation.activate(language(os.environ))
        return command


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
        _run([program, *arguments])
    except BrokenPipeError:
        # Whoever read the output has left (`| head`): nobody is there to be told. Python flushes once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except OperationalError as error:
        sys.stderr.write(f"The database cannot be used: {error}.\n")
        sys.stderr.write("See database.url, its folder and its rights: tunnelmesh check_config\n")
        return ExitCode.FAILED
    except ModuleNotFoundError as error:
        if error.name != os.environ["DJANGO_SETTINGS_MODULE"]:
            raise
        sys.stderr.write(f"DJANGO_SETTINGS_MODULE (or --settings) names {error.name}, and there is no such module.\n")
        sys.stderr.write("Unset it, or name tunnelmesh.settings.production.\n")
        return ExitCode.REFUSED_CONFIG
    return ExitCode.OK


def _run(argv: list[str]) -> None:
    try:
        _Commands(argv).execute()
    finally:
        sys.stdout.flush()


def language(environ: Mapping[str, str]) -> str:
    """The language that the first of LC_ALL, LC_MESSAGES and LANG names, as POSIX orders them; English where we do not
    have that one. The variants of Chinese are matched as for the pages."""
    locale = next(filter(None, map(environ.get, LOCALE_VARIABLES)), "")
    name = locale.partition(".")[0].partition("@")[0].replace("_", "-").lower()
    try:
        return translation.get_supported_language_variant(name)
    except LookupError:
        return settings.LANGUAGE_CODE


def take_config(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments without `--config PATH` and `--config=PATH`, and the value of the last; what follows a bare `--` is
    not ours."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", metavar="PATH")
    found, rest = parser.parse_known_args(arguments[:end])
    return [*rest, *arguments[end:]], found.config
