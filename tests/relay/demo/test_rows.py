"""relay.demo.rows: what a demo that starts again finds in its database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relay.demo.rows import main
from relay.demo.seed import FILE
from relay.models import Route, Service
from relay.services.publishing import route_open

pytestmark = pytest.mark.django_db


def start(folder: Path, port: int) -> None:
    route = {
        "name": "web",
        "node": "node-a",
        "listen": f"127.0.0.1:{port}",
        "agent": "agent-1",
        "target": "127.0.0.1:31000",
    }
    seed = {"console": False, "nodes": ["node-a"], "agents": ["agent-1"], "routes": [route]}
    (folder / FILE).write_text(json.dumps(seed))
    main(str(folder))


def test_routes_that_were_added_in_the_console_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    start(tmp_path, 30001)
    added = route_open(Service.objects.get(), host="127.0.0.1", port=30002, actor="admin")
    start(tmp_path, 30003)
    assert list(Route.objects.order_by("id").values_list("port", flat=True)) == [30003, 30002]
    assert Route.objects.latest("id") == added
