"""The authorisation revision: one counter that moves with every change of who may do what (design.md section 3)."""

from __future__ import annotations

from django.db import models


class AuthorisationRevision(models.Model):
    """A table of one row, number 1, which the first change writes."""

    id = models.SmallIntegerField(primary_key=True)
    value = models.BigIntegerField(default=0)

    class Meta:
        db_table = "authorisation_revision"

    def __str__(self) -> str:
        return str(self.value)
