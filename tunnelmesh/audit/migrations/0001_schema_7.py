"""Schema 7: the audit log and the table that names the schema's version."""

from django.db import migrations, models

import tunnelmesh.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="SchemaMeta",
            fields=[
                ("name", tunnelmesh.common.fields.AsciiField(max_length=63, primary_key=True, serialize=False)),
                ("value", models.CharField(max_length=191)),
                ("updated_at", models.DateTimeField()),
            ],
            options={"db_table": "schema_meta"},
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(db_index=True)),
                ("actor", models.CharField(max_length=191)),
                ("action", tunnelmesh.common.fields.AsciiField(max_length=63)),
                ("target", models.CharField(max_length=191)),
                ("details", models.TextField()),
            ],
            options={"db_table": "audit_logs"},
        ),
    ]
