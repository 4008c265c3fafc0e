"""tunnelmesh.audit: one writer, in the change's transaction, append-only, without secrets (P5, P14, F28)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.db import transaction

from tests.support.fleet import live_node
from tokens.secret import generate
from tunnelmesh.audit import services as audit
from tunnelmesh.audit.models import AuditEvent
from tunnelmesh.common.errors import Refused
from tunnelmesh.common.secrets import Secret
from tunnelmesh.db.clock import database_now


def record() -> AuditEvent:
    return audit.record("thing.changed", actor="user:1", target="thing:1", before={"a": 1}, after={"a": [2, None]})


@pytest.mark.django_db
def test_an_event_says_before_and_after_by_the_databases_clock() -> None:
    start = database_now()
    record()
    event = AuditEvent.objects.get()
    assert start <= event.created_at <= database_now()
    assert (event.action, event.actor, event.target) == ("thing.changed", "user:1", "thing:1")
    assert (json.loads(event.before), json.loads(event.after)) == ({"a": 1}, {"a": [2, None]})


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_it_raises() -> None:
    with pytest.raises(RuntimeError):
        record()
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_goes_with_its_change() -> None:
    class Undo(Exception):
        pass

    with pytest.raises(Undo), transaction.atomic():  # noqa: PT012 - the transaction is what is tested
        record()
        raise Undo
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        lambda event: event.save(),
        lambda event: event.delete(),
        lambda _: AuditEvent.objects.all().delete(),
        lambda _: AuditEvent.objects.update(actor="nobody"),
        lambda event: AuditEvent.objects.bulk_update([event], ["actor"]),
        lambda _: AuditEvent.objects.update_or_create(id=1, defaults={"actor": "nobody"}),
        lambda _: AuditEvent.objects.all()._raw_delete(using=None),
    ],
)
def test_it_is_append_only(change: Callable[[AuditEvent], object]) -> None:
    event = record()
    with pytest.raises(Refused):
        change(event)
    assert AuditEvent.objects.get().actor == "user:1"


@pytest.mark.django_db
def test_secrets_are_masked_by_key_by_type_and_by_form() -> None:
    secret = generate("tmn_", lambda size: b"\x05" * size)
    audit.record(
        "thing.changed",
        actor="user:1",
        target="thing:1",
        after={
            "token": "plain-text-1",
            "deep": [{"password": "plain-text-2", "digest": "plain-text-3"}],
            "typed": Secret("plain-text-4"),
            "note": f"found {secret.reveal()} in a log",
            "at": database_now(),
        },
    )
    after = AuditEvent.objects.get().after
    assert "plain-text" not in after
    assert secret.reveal()[:12] not in after


@pytest.mark.django_db
def test_times_and_text_survive() -> None:
    live_node("server-a")
    audit.record("thing.changed", actor="用户", target="thing:1", after={"name": "边缘 <b>"})
    event = AuditEvent.objects.get(action="thing.changed")
    assert (event.actor, json.loads(event.after)) == ("用户", {"name": "边缘 <b>"})
