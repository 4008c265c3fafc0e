"""Schema 7: tokens, each bound to at most one node. The last of its tables, so the version is written here."""

from django.db import migrations, models

from tunnelmesh.audit.schema_version import records_version
from tunnelmesh.common.fields import AsciiField


class Migration(migrations.Migration):
    initial = True

    dependencies = [("nodes", "0001_schema_7")]

    operations = [
        migrations.CreateModel(
            name="ServiceToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("type", AsciiField(max_length=31, verbose_name="type")),
                ("name", models.CharField(max_length=191, verbose_name="name")),
                ("prefix", AsciiField(max_length=15, verbose_name="hint")),
                ("digest", AsciiField(max_length=64, unique=True)),
                ("legacy_node_id", AsciiField(db_column="node_id", editable=False, max_length=63, null=True)),
                ("expires_at", models.DateTimeField(null=True, verbose_name="expires at")),
                ("revoked_at", models.DateTimeField(null=True, verbose_name="revoked at")),
                ("last_used_at", models.DateTimeField(null=True, verbose_name="last used at")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("updated_at", models.DateTimeField(verbose_name="updated at")),
            ],
            options={
                "db_table": "service_tokens",
                "verbose_name": "service token",
                "verbose_name_plural": "service tokens",
                "abstract": False,
                "base_manager_name": "objects",
            },
        ),
        records_version(7),
    ]
