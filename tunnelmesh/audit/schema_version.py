"""The last operation of a schema step: write the new version into `schema_meta`."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models.functions import Now

NAME = "schema_version"


def records_version(version: int) -> migrations.RunPython:
    """Record `version` once every table of that schema stands; going back records the version before it."""

    def write(apps: Apps, editor: BaseDatabaseSchemaEditor, number: int) -> None:
        apps.get_model("audit.SchemaMeta").objects.using(editor.connection.alias).update_or_create(
            name=NAME, defaults={"value": str(number), "updated_at": Now()}
        )

    return migrations.RunPython(
        lambda apps, editor: write(apps, editor, version), lambda apps, editor: write(apps, editor, version - 1)
    )
