"""A unit of work of a long-running process: a usable connection before it, none that has gone bad after it (R32)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import InterfaceError, OperationalError, close_old_connections, connection

from tunnelmesh.common.errors import DomainError

P = ParamSpec("P")
R = TypeVar("R")
_AWAY = (OperationalError, InterfaceError)


def _unit(attempts: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(work: Callable[P, R]) -> Callable[P, R]:
        @wraps(work)
        def unit(*args: P.args, **kwargs: P.kwargs) -> R:
            if connection.in_atomic_block:  # part of a larger unit, whose connection is not ours to close
                return work(*args, **kwargs)
            close_old_connections()
            try:
                for _ in range(attempts - 1):
                    try:
                        return work(*args, **kwargs)
                    except _AWAY:
                        connection.close()
                return work(*args, **kwargs)
            except _AWAY as error:
                raise DomainError(
                    "database_unavailable", "the database cannot be used", hint="check database.url and its server"
                ) from error
            finally:
                close_old_connections()

        return unit

    return decorate


def writes(work: Callable[P, R]) -> Callable[P, R]:
    """Run `work` once; raises DomainError `database_unavailable` when the database is away."""
    return _unit(attempts=1)(work)


def reads(work: Callable[P, R]) -> Callable[P, R]:
    """Like `writes`, and tried once more: that the server has closed a connection shows only when it is used."""
    return _unit(attempts=2)(work)
