"""Schema 9: the heartbeat in a row of its own, leases with epoch and generation, the authorisation revision.

Leases of schema 7 name no epoch, so none of them can be told from a dead process's: all are closed here, and the
agents' next connections open new ones.
"""

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import F

from tunnelmesh.common.fields import AsciiField

MOVED = ("last_seen_at", "expires_at")
CHUNK = 500


def heartbeats_out(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    alias = editor.connection.alias
    heartbeat = apps.get_model("nodes", "Heartbeat")
    rows = apps.get_model("nodes", "ServerNode").objects.using(alias).values("id", "epoch", *MOVED)
    heartbeat.objects.using(alias).bulk_create(
        (heartbeat(server_node_id=row.pop("id"), **row) for row in rows.iterator(CHUNK)), batch_size=CHUNK
    )


def heartbeats_back(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    alias = editor.connection.alias
    nodes = apps.get_model("nodes", "ServerNode").objects.using(alias)
    for row in apps.get_model("nodes", "Heartbeat").objects.using(alias).values("server_node_id", *MOVED):
        nodes.filter(id=row.pop("server_node_id")).update(**row)


def close_leases(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("nodes", "AgentConnection").objects.using(editor.connection.alias).update(
        generation=F("id"), closed_at=F("updated_at"), close_reason="schema_9"
    )


class Migration(migrations.Migration):
    dependencies = [("nodes", "0002_schema_8"), ("audit", "0003_schema_9")]

    operations = [
        migrations.CreateModel(
            name="AuthorisationRevision",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("value", models.BigIntegerField(default=0)),
            ],
            options={"db_table": "authorisation_revision"},
        ),
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                (
                    "server_node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="heartbeat",
                        serialize=False,
                        to="nodes.servernode",
                        verbose_name="server node",
                    ),
                ),
                ("epoch", models.BigIntegerField(verbose_name="epoch")),
                ("last_seen_at", models.DateTimeField(null=True, verbose_name="last seen")),
                ("expires_at", models.DateTimeField(null=True, verbose_name="expires at")),
                ("draining", models.BooleanField(default=False, verbose_name="draining")),
                ("unreachable_peers", models.TextField(default="[]", verbose_name="unreachable peers")),
            ],
            options={
                "db_table": "server_node_heartbeats",
                "verbose_name": "heartbeat",
                "verbose_name_plural": "heartbeats",
            },
        ),
        migrations.RunPython(heartbeats_out, heartbeats_back),
        migrations.RemoveField("servernode", "last_seen_at"),
        migrations.RemoveField("servernode", "expires_at"),
        migrations.AddField(
            "servernode", "version", AsciiField(blank=True, default="", max_length=63, verbose_name="version")
        ),
        migrations.AddField(
            "servernode",
            "certificate_not_after",
            models.DateTimeField(blank=True, null=True, verbose_name="certificate valid until"),
        ),
        migrations.AddField(
            "servernode",
            "certificate_fingerprint",
            AsciiField(blank=True, default="", max_length=95, verbose_name="certificate fingerprint"),
        ),
        migrations.AddField(
            "agentconnection",
            "node_epoch",
            models.BigIntegerField(default=0, verbose_name="node epoch"),
            preserve_default=False,
        ),
        migrations.AddField(
            "agentconnection",
            "generation",
            models.BigIntegerField(default=0, verbose_name="generation"),
            preserve_default=False,
        ),
        migrations.AddField(
            "agentconnection", "health_score", models.SmallIntegerField(default=100, verbose_name="health")
        ),
        migrations.AddField("agentconnection", "closed_at", models.DateTimeField(null=True, verbose_name="closed at")),
        migrations.AddField(
            "agentconnection", "close_reason", AsciiField(default="", max_length=63, verbose_name="close reason")
        ),
        migrations.RunPython(close_leases, migrations.RunPython.noop),
        migrations.AddConstraint(
            "agentconnection",
            models.UniqueConstraint(fields=("agent_id", "generation"), name="agent_leases_generation"),
        ),
        migrations.AddIndex(
            "agentconnection", models.Index(fields=["agent_id", "closed_at"], name="agent_leases_agent")
        ),
        migrations.AddIndex(
            "agentconnection",
            models.Index(fields=["server_node", "node_epoch", "closed_at"], name="agent_leases_node"),
        ),
        migrations.AlterField(
            "agentconnection",
            "server_node",
            models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="connections",
                to="nodes.servernode",
                verbose_name="server node",
            ),
        ),
    ]
