"""Schema 9: services, routes and policies. The last of its tables, so the version is written here."""

import django.db.models.deletion
from django.db import migrations, models

from tunnelmesh.audit.schema_version import records_version
from tunnelmesh.common.fields import AsciiField


class Migration(migrations.Migration):
    initial = True

    dependencies = [("nodes", "0003_schema_9"), ("tokens", "0003_schema_9")]

    operations = [
        migrations.CreateModel(
            name="Service",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted at")),
                ("name", AsciiField(max_length=63, unique=True, verbose_name="name")),
                ("agent_id", AsciiField(db_index=True, max_length=63, verbose_name="agent id")),
                (
                    "protocol",
                    AsciiField(choices=[("tcp", "TCP")], default="tcp", max_length=15, verbose_name="protocol"),
                ),
                ("host", AsciiField(max_length=253, verbose_name="host")),
                ("port", models.IntegerField(verbose_name="port")),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                ("created_at", models.DateTimeField(editable=False, verbose_name="created at")),
                ("updated_at", models.DateTimeField(editable=False, verbose_name="updated at")),
            ],
            options={
                "verbose_name": "service",
                "verbose_name_plural": "services",
                "db_table": "services",
                "abstract": False,
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Route",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted at")),
                ("kind", AsciiField(choices=[("tcp", "TCP port")], default="tcp", max_length=15, verbose_name="kind")),
                ("host", AsciiField(default="127.0.0.1", max_length=253, verbose_name="listen address")),
                ("port", models.IntegerField(null=True, verbose_name="listen port")),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                ("created_at", models.DateTimeField(editable=False, verbose_name="created at")),
                ("updated_at", models.DateTimeField(editable=False, verbose_name="updated at")),
                (
                    "server_node",
                    models.ForeignKey(
                        blank=True,
                        help_text="Empty: every node opens this entry.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="routes",
                        to="nodes.servernode",
                        verbose_name="server node",
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="routes",
                        to="relay.service",
                        verbose_name="service",
                    ),
                ),
            ],
            options={
                "verbose_name": "route",
                "verbose_name_plural": "routes",
                "db_table": "routes",
                "abstract": False,
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("principal", AsciiField(max_length=63, verbose_name="principal")),
                ("created_at", models.DateTimeField(editable=False, verbose_name="created at")),
                (
                    "service",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policies",
                        to="relay.service",
                        verbose_name="service",
                    ),
                ),
            ],
            options={
                "verbose_name": "policy",
                "verbose_name_plural": "policies",
                "db_table": "policies",
                "constraints": [models.UniqueConstraint(fields=("service", "principal"), name="policies_once")],
            },
        ),
        records_version(9),
    ]
