"""Schema 7: tokens, each bound to at most one node. The last of its tables, so the version is written here."""

from django.db import migrations, models

import tunnelmesh.common.fields
from tunnelmesh.audit.schema_version import records_version


class Migration(migrations.Migration):
    initial = True

    dependencies = [("nodes", "0001_schema_7")]

    operations = [
        migrations.CreateModel(
            name="ServiceToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("type", tunnelmesh.common.fields.AsciiField(max_length=31)),
                ("name", models.CharField(max_length=191)),
                ("prefix", tunnelmesh.common.fields.AsciiField(max_length=15)),
                ("digest", tunnelmesh.common.fields.AsciiField(max_length=64, unique=True)),
                ("node_id", tunnelmesh.common.fields.AsciiField(max_length=63, null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={"db_table": "service_tokens"},
        ),
        records_version(7),
    ]
