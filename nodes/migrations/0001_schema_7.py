"""Schema 7: the nodes and the agent connections that they hold."""

import django.db.models.deletion
from django.db import migrations, models

import tunnelmesh.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [("audit", "0001_schema_7")]

    operations = [
        migrations.CreateModel(
            name="ServerNode",
            fields=[
                ("id", tunnelmesh.common.fields.AsciiField(max_length=63, primary_key=True, serialize=False)),
                ("address", models.CharField(max_length=255)),
                ("epoch", models.BigIntegerField()),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={"db_table": "server_nodes"},
        ),
        migrations.CreateModel(
            name="AgentConnection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent_id", tunnelmesh.common.fields.AsciiField(max_length=63)),
                ("connection_id", tunnelmesh.common.fields.AsciiField(max_length=63, unique=True)),
                ("active_streams", models.IntegerField(default=0)),
                ("opened_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "server_node",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="nodes.servernode"),
                ),
            ],
            options={"db_table": "agent_connection_leases"},
        ),
    ]
