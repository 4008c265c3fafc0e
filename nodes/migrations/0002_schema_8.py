"""Schema 8: `name`, `enabled` and `deleted_at`, and the name backfilled with the node id (F19, F34). Nothing else."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import F

from tunnelmesh.audit.schema_version import records_version


def name_after_id(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("nodes", "ServerNode").objects.using(editor.connection.alias).filter(name="").update(name=F("id"))


class Migration(migrations.Migration):
    dependencies = [("nodes", "0001_schema_7"), ("tokens", "0001_schema_7")]

    operations = [
        migrations.AddField(
            "servernode",
            "name",
            models.CharField(default="", max_length=191, verbose_name="name"),
            preserve_default=False,
        ),
        migrations.AddField("servernode", "enabled", models.BooleanField(default=True, verbose_name="enabled")),
        migrations.AddField(
            "servernode",
            "deleted_at",
            models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted at"),
        ),
        migrations.RunPython(name_after_id, migrations.RunPython.noop),
        records_version(8),
    ]
