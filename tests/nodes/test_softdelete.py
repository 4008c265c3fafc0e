"""tunnelmesh.common.softdelete, on the table of nodes: rows are hidden, found again, and never removed (R29, R31)."""

from __future__ import annotations

import pytest

from nodes.models import ServerNode
from tests.support.fleet import register
from tunnelmesh.common.errors import Refused

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _two_nodes(db: None) -> None:
    register("server-a")
    register("server-b")


def test_delete_of_a_row_hides_it() -> None:
    node = ServerNode.objects.get(id="server-a")
    assert node.delete() == (1, {"nodes.ServerNode": 1})
    assert node.deleted_at is not None
    assert [row.id for row in ServerNode.objects.order_by("id")] == ["server-a", "server-b"]
    assert [row.id for row in ServerNode.active.all()] == ["server-b"]
    assert [row.id for row in ServerNode.deleted.all()] == ["server-a"]


@pytest.mark.parametrize("manager", ["objects", "active"])
def test_delete_of_a_queryset_hides_its_rows(manager: str) -> None:
    assert getattr(ServerNode, manager).all().delete() == (2, {"nodes.ServerNode": 2})
    assert ServerNode.objects.count() == ServerNode.deleted.count() == 2


def test_deleting_again_keeps_the_first_time() -> None:
    node = ServerNode.objects.get(id="server-a")
    node.delete()
    first = node.deleted_at
    assert node.delete()[0] == 0
    assert node.deleted_at == first


def test_a_hard_delete_raises() -> None:
    with pytest.raises(Refused):
        ServerNode.objects.all()._raw_delete(using=None)
    assert ServerNode.objects.count() == 2


def test_validators_meet_the_deleted_twin() -> None:
    assert ServerNode._default_manager.name == ServerNode._base_manager.name == "objects"
