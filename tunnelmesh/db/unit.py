"""A unit of work of a long-running process: a usable connection before it, none that has gone bad after it (R32)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections, connection

from tunnelmesh.common.errors import DomainError

P = ParamSpec("P")
R = TypeVar("R")
ATTEMPTS = 5
_AWAY = frozenset({OperationalError, InterfaceError, DatabaseError})
"""These and no subclasses: DatabaseError itself is SQLite's word for a damaged file, while an IntegrityError, say, is a
mistake of ours."""
_DEADLOCK = 1213
"""MySQL's victim of a deadlock: its whole transaction is rolled back, so that doing it again is right."""


def writes(work: Callable[P, R]) -> Callable[P, R]:
    """Run `work`, again only when the database has undone all of it; raises DomainError `database_unavailable`."""
    return _unit(work, lambda error, _: error.args[:1] == (_DEADLOCK,))


def reads(work: Callable[P, R]) -> Callable[P, R]:
    """Like `writes`, and once more after any error: that the server has closed a connection shows only in its use."""
    return _unit(work, lambda error, attempt: attempt == 1 or error.args[:1] == (_DEADLOCK,))


def _unit(work: Callable[P, R], is_worth_another: Callable[[Exception, int], bool]) -> Callable[P, R]:
    @wraps(work)
    def unit(*args: P.args, **kwargs: P.kwargs) -> R:
        if connection.in_atomic_block:  # part of a larger unit, whose connection is not ours to close
            return work(*args, **kwargs)
        attempt = 1
        while True:
            close_old_connections()
            try:
                return work(*args, **kwargs)
            except (DatabaseError, InterfaceError) as error:
                if type(error) not in _AWAY:
                    raise
                connection.close()
                if attempt == ATTEMPTS or not is_worth_another(error, attempt):
                    raise _unavailable() from error
                attempt += 1
            finally:
                close_old_connections()

    return unit


def _unavailable() -> DomainError:
    hint = "check database.url and its server"
    return DomainError("database_unavailable", "the database cannot be used", hint=hint)
