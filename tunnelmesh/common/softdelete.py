"""Rows that are hidden instead of removed: the abstract model and its managers (design.md section 4)."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from tunnelmesh.common.errors import Refused

Row_co = TypeVar("Row_co", bound=models.Model, covariant=True)


class SoftDeleteQuerySet(models.QuerySet[Row_co], Generic[Row_co]):
    """A queryset whose `delete` is logical and which cannot remove a row."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Mark the rows that are not marked yet, with the database's clock; gives Django's own shape of result."""
        count = self.filter(deleted_at__isnull=True).update(deleted_at=Now())
        return count, {self.model._meta.label: count}

    delete.alters_data = True  # type: ignore[attr-defined]  # Django's mark: templates must not call it

    def _raw_delete(self, using: str | None) -> NoReturn:  # noqa: ARG002 - Django's signature
        raise Refused(
            "hard_delete",
            f"rows of {self.model._meta.db_table} are never removed, their ids stay taken",
            hint="call delete(), which hides them",
        )


AllManager = models.Manager.from_queryset(SoftDeleteQuerySet)


class ActiveManager(AllManager[Row_co]):
    def get_queryset(self) -> models.QuerySet[Row_co]:
        return super().get_queryset().filter(deleted_at__isnull=True)


class DeletedManager(AllManager[Row_co]):
    def get_queryset(self) -> models.QuerySet[Row_co]:
        return super().get_queryset().filter(deleted_at__isnull=False)


class SoftDelete(models.Model):
    """`objects` sees every row, so that validators and the admin meet the deleted twin of a unique value (R29)."""

    deleted_at = models.DateTimeField(_("deleted at"), null=True, blank=True, editable=False)

    objects = AllManager()
    active = ActiveManager()
    deleted = DeletedManager()

    class Meta:
        abstract = True
        base_manager_name = "objects"

    def delete(self, using: Any = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:  # noqa: ARG002
        """Logical, like the queryset's; the row in memory shows it."""
        result = type(self)._base_manager.filter(pk=self.pk).delete()
        self.refresh_from_db(fields=["deleted_at"])
        return result
