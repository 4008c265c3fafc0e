"""Model fields that behave the same on every database (design.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

_Set = TypeVar("_Set")
_Get = TypeVar("_Get")

if TYPE_CHECKING:

    class _CharField(models.CharField[_Set, _Get]): ...

else:  # at run time Django's fields take no type arguments

    class _CharField(models.CharField, Generic[_Set, _Get]): ...


class AsciiField(_CharField[_Set, _Get]):
    """Ids, digests and other machine text: compared byte for byte, one byte a character in an index.

    MySQL's default collation finds `SERVER-A` and `server-a ` equal to `server-a`; `ascii_bin` does not. SQLite already
    compares bytes.
    """

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        parameters = dict(super().db_parameters(connection))
        if connection.vendor == "mysql":
            parameters["collation"] = "ascii_bin"
        return parameters
