"""Schema 7: the nodes and the agent connections that they hold."""

import django.db.models.deletion
from django.db import migrations, models

from tunnelmesh.common.fields import AsciiField


class Migration(migrations.Migration):
    initial = True

    dependencies = [("audit", "0001_schema_7")]

    operations = [
        migrations.CreateModel(
            name="ServerNode",
            fields=[
                ("id", AsciiField(max_length=63, primary_key=True, serialize=False, verbose_name="node id")),
                ("address", models.CharField(blank=True, max_length=255, verbose_name="address")),
                ("epoch", models.BigIntegerField(default=0, verbose_name="epoch")),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("updated_at", models.DateTimeField(verbose_name="updated at")),
            ],
            options={
                "db_table": "server_nodes",
                "verbose_name": "server node",
                "verbose_name_plural": "server nodes",
                "abstract": False,
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="AgentConnection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent_id", AsciiField(max_length=63, verbose_name="agent id")),
                ("connection_id", AsciiField(max_length=63, unique=True, verbose_name="connection id")),
                ("active_streams", models.IntegerField(default=0, verbose_name="active streams")),
                ("opened_at", models.DateTimeField(verbose_name="opened at")),
                ("updated_at", models.DateTimeField(verbose_name="updated at")),
                (
                    "server_node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="connections",
                        to="nodes.servernode",
                        verbose_name="server node",
                    ),
                ),
            ],
            options={
                "db_table": "agent_connection_leases",
                "verbose_name": "agent connection",
                "verbose_name_plural": "agent connections",
            },
        ),
    ]
