"""Schema 7: the audit log and the table that names the schema's version."""

from django.db import migrations, models

from tunnelmesh.common.fields import AsciiField


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="SchemaMeta",
            fields=[
                ("name", AsciiField(max_length=63, primary_key=True, serialize=False)),
                ("value", models.CharField(max_length=191)),
                ("updated_at", models.DateTimeField()),
            ],
            options={"db_table": "schema_meta"},
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(db_index=True, verbose_name="created at")),
                ("actor", models.CharField(max_length=191, verbose_name="actor")),
                ("action", AsciiField(max_length=63, verbose_name="action")),
                ("target", models.CharField(max_length=191, verbose_name="target")),
                ("details", models.TextField()),
            ],
            options={
                "db_table": "audit_logs",
                "base_manager_name": "objects",
                "verbose_name": "audit event",
                "verbose_name_plural": "audit events",
            },
        ),
    ]
