"""nodes.services.authorisation: the counter moves with a change or not at all."""

from __future__ import annotations

import pytest
from django.db import transaction

from nodes.selectors import authorisation_revision
from nodes.services.authorisation import authorisation_touch


@pytest.mark.django_db
def test_it_counts_from_the_first_change_on() -> None:
    start = authorisation_revision()
    for _ in range(3):
        authorisation_touch()
    assert authorisation_revision() == start + 3


@pytest.mark.django_db(transaction=True)
def test_it_goes_back_with_its_change() -> None:
    class Undo(Exception):
        pass

    start = authorisation_revision()
    with pytest.raises(Undo), transaction.atomic():  # noqa: PT012 - the transaction is what is tested
        authorisation_touch()
        raise Undo
    assert authorisation_revision() == start


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_it_raises() -> None:
    with pytest.raises(RuntimeError):
        authorisation_touch()
