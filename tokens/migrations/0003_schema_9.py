"""Schema 9: tokens with a scope, devices and their pairing, peers, refused attempts.

The one-node binding of schema 7 is not carried forward (F3, F4): every token from before gets the scope that admits
nobody, and works again once it has been rebuilt with a scope that somebody chose.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from tunnelmesh.common.fields import AsciiField

NOBODY = '{"fleet":false,"serverNodeIds":[],"version":1}'


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0003_schema_9"),
        ("tokens", "0001_schema_7"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="RefusedAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("door", AsciiField(max_length=31, verbose_name="door")),
                ("check_name", AsciiField(max_length=31, verbose_name="check")),
                ("claimed_id", models.CharField(max_length=191, verbose_name="claimed id")),
                ("source_address", AsciiField(max_length=63, verbose_name="source address")),
                ("reason", models.CharField(max_length=500, verbose_name="reason")),
            ],
            options={
                "verbose_name": "refused attempt",
                "verbose_name_plural": "refused attempts",
                "db_table": "refused_attempts",
            },
        ),
        migrations.AddField(
            "servicetoken",
            "deleted_at",
            models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted at"),
        ),
        migrations.AddField(
            "servicetoken",
            "owner",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="owner",
            ),
        ),
        migrations.AddField(
            "servicetoken",
            "previous_digest",
            AsciiField(max_length=64, null=True, unique=True),
        ),
        migrations.AddField(
            "servicetoken",
            "previous_expires_at",
            models.DateTimeField(null=True, verbose_name="previous secret valid until"),
        ),
        migrations.AddField(
            "servicetoken",
            "scope",
            models.TextField(default=NOBODY, verbose_name="scope"),
            preserve_default=False,
        ),
        migrations.CreateModel(
            name="Device",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True, verbose_name="deleted at")),
                ("display_name", models.CharField(max_length=191, verbose_name="display name")),
                ("platform", AsciiField(max_length=63, verbose_name="platform")),
                ("node_identity", AsciiField(db_index=True, max_length=63, verbose_name="installation")),
                (
                    "status",
                    AsciiField(
                        choices=[("active", "active"), ("paused", "paused")],
                        default="active",
                        max_length=15,
                        verbose_name="status",
                    ),
                ),
                ("scope", models.TextField(verbose_name="scope")),
                ("prefix", AsciiField(max_length=15, verbose_name="hint")),
                ("digest", AsciiField(max_length=64, unique=True)),
                ("public_key", models.TextField(verbose_name="public key")),
                ("certificate_pin", AsciiField(max_length=95, verbose_name="pinned certificate")),
                ("callback_url", models.CharField(max_length=1000, verbose_name="callback address")),
                ("approved_at", models.DateTimeField(verbose_name="approved at")),
                ("expires_at", models.DateTimeField(null=True, verbose_name="expires at")),
                ("revoked_at", models.DateTimeField(null=True, verbose_name="revoked at")),
                ("use_count", models.BigIntegerField(default=0, verbose_name="use count")),
                ("last_used_at", models.DateTimeField(null=True, verbose_name="last used at")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("updated_at", models.DateTimeField(verbose_name="updated at")),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="approved by",
                    ),
                ),
            ],
            options={
                "verbose_name": "device",
                "verbose_name_plural": "devices",
                "db_table": "devices",
                "abstract": False,
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="PairingRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("poll_digest", AsciiField(max_length=64, unique=True)),
                ("nonce_digest", AsciiField(max_length=64)),
                (
                    "status",
                    AsciiField(
                        choices=[
                            ("open", "open"),
                            ("approved", "approved"),
                            ("denied", "denied"),
                            ("collected", "collected"),
                        ],
                        default="open",
                        max_length=15,
                        verbose_name="status",
                    ),
                ),
                ("display_name", models.CharField(max_length=191, verbose_name="display name")),
                ("platform", AsciiField(max_length=63, verbose_name="platform")),
                ("node_identity", AsciiField(max_length=63, verbose_name="installation")),
                ("scope", models.TextField(verbose_name="scope")),
                ("public_key", models.TextField(verbose_name="public key")),
                ("certificate_pin", AsciiField(max_length=95, verbose_name="pinned certificate")),
                ("callback_url", models.CharField(max_length=1000, verbose_name="callback address")),
                ("source_address", AsciiField(db_index=True, max_length=63, verbose_name="source address")),
                ("wrong_answers", models.SmallIntegerField(default=0, verbose_name="wrong answers")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("expires_at", models.DateTimeField(verbose_name="expires at")),
                ("decided_at", models.DateTimeField(null=True, verbose_name="decided at")),
                ("collected_at", models.DateTimeField(null=True, verbose_name="collected at")),
                (
                    "device",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tokens.device",
                        verbose_name="device",
                    ),
                ),
            ],
            options={
                "verbose_name": "pairing request",
                "verbose_name_plural": "pairing requests",
                "db_table": "pairing_requests",
            },
        ),
        migrations.CreateModel(
            name="Peer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=191, verbose_name="name")),
                ("base_url", models.CharField(max_length=1000, verbose_name="address")),
                ("credential", models.CharField(max_length=255, verbose_name="credential")),
                ("mode", AsciiField(max_length=15, verbose_name="mode")),
                ("certificate_pin", AsciiField(max_length=95, verbose_name="pinned certificate")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("updated_at", models.DateTimeField(verbose_name="updated at")),
                (
                    "reverse_grant",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tokens.device",
                        verbose_name="reverse grant",
                    ),
                ),
            ],
            options={
                "verbose_name": "peer",
                "verbose_name_plural": "peers",
                "db_table": "peers",
            },
        ),
        migrations.CreateModel(
            name="ServiceTokenUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("use_count", models.BigIntegerField(default=0, verbose_name="use count")),
                ("last_used_at", models.DateTimeField(verbose_name="last used at")),
                (
                    "server_node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="nodes.servernode"
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="uses",
                        to="tokens.servicetoken",
                    ),
                ),
            ],
            options={
                "db_table": "service_token_uses",
                "constraints": [
                    models.UniqueConstraint(fields=("token", "server_node"), name="service_token_uses_once")
                ],
            },
        ),
    ]
