"""tunnelmesh.db: units of work and what they do with errors; the database's clock (P15, R32)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection, transaction

from tunnelmesh.common.errors import DomainError
from tunnelmesh.db.clock import database_now
from tunnelmesh.db.unit import ATTEMPTS, reads, writes

DEADLOCK = OperationalError(1213, "Deadlock found")
AWAY = OperationalError(2006, "server has gone away")
CLOSED = InterfaceError(0, "")
DAMAGED = DatabaseError("file is not a database")


def failing(*errors: Exception) -> tuple[Callable[[], str], list[int]]:
    """Work that raises the errors, one a call, and then succeeds; and its calls."""
    calls: list[int] = []

    def work() -> str:
        calls.append(1)
        if len(calls) <= len(errors):
            raise errors[len(calls) - 1]
        return "done"

    return work, calls


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("unit", "errors", "calls"),
    [
        (writes, [], 1),
        (writes, [DEADLOCK], 2),
        (writes, [DEADLOCK] * (ATTEMPTS - 1), ATTEMPTS),
        (reads, [AWAY], 2),
        (reads, [CLOSED], 2),
        (reads, [AWAY, DEADLOCK], 3),
    ],
)
def test_it_succeeds(unit: Callable[..., Callable[[], str]], errors: list[Exception], calls: int) -> None:
    work, made = failing(*errors)
    assert unit(work)() == "done"
    assert len(made) == calls


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("unit", "errors", "calls"),
    [
        (writes, [AWAY], 1),
        (writes, [CLOSED], 1),
        (writes, [DAMAGED], 1),
        (reads, [DAMAGED, DAMAGED], 2),
        (writes, [DEADLOCK] * ATTEMPTS, ATTEMPTS),
        (reads, [AWAY, AWAY], 2),
    ],
)
def test_it_gives_up(unit: Callable[..., Callable[[], str]], errors: list[Exception], calls: int) -> None:
    work, made = failing(*errors)
    with pytest.raises(DomainError) as caught:
        unit(work)()
    assert caught.value.code == "database_unavailable"
    assert caught.value.__cause__ is errors[-1]
    assert len(made) == calls


@pytest.mark.django_db(transaction=True)
def test_other_errors_pass_unchanged() -> None:
    work, made = failing(IntegrityError("duplicate"))
    with pytest.raises(IntegrityError):
        reads(work)()
    assert len(made) == 1


@pytest.mark.django_db
def test_inside_a_transaction_it_leaves_the_connection_alone() -> None:
    work, made = failing(DEADLOCK)
    with transaction.atomic(), pytest.raises(OperationalError):
        writes(work)()
    assert len(made) == 1
    assert connection.is_usable()


@pytest.mark.django_db
def test_the_databases_clock_is_aware_and_goes_on() -> None:
    first, second = database_now(), database_now()
    assert first.tzinfo is UTC
    assert first <= second
