"""The schema's own version, for tools that know no Django."""

from __future__ import annotations

from django.db import models

from tunnelmesh.common.fields import AsciiField


class SchemaMeta(models.Model):
    """Names and values; `schema_version` is written last by every step."""

    name = AsciiField(max_length=63, primary_key=True)
    value = models.CharField(max_length=191)
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "schema_meta"

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
