"""Schema 9: an event says how its target looked before and after, and where the request came from."""

from django.db import migrations, models

from tunnelmesh.common.fields import AsciiField


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_schema_7"), ("nodes", "0002_schema_8")]

    operations = [
        migrations.RenameField("auditevent", "details", "after"),
        migrations.AlterField("auditevent", "after", models.TextField(verbose_name="after")),
        migrations.AddField(
            "auditevent", "before", models.TextField(default="{}", verbose_name="before"), preserve_default=False
        ),
        migrations.AddField(
            "auditevent",
            "request_id",
            AsciiField(default="", max_length=63, verbose_name="request id"),
            preserve_default=False,
        ),
        migrations.AddField(
            "auditevent",
            "source_address",
            AsciiField(default="", max_length=63, verbose_name="source address"),
            preserve_default=False,
        ),
        migrations.AddIndex(
            "auditevent", models.Index(fields=["target", "action", "created_at"], name="audit_logs_target")
        ),
    ]
