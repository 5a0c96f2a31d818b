"""The names that the columns of a file have there, beside ours: columns without a name are called by position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from streammargin.tables.unnamed import names_of

Found = TypeVar("Found", pa.Table, pa.RecordBatch)


class Stored:
    """names: as they are stored; ours: the same in order, all different unless two columns have the same name."""

    def __init__(self, names: Iterable[str], ours: list[str] | None = None) -> None:
        self.names: list[str] = list(names)
        self.ours: list[str] = names_of(self.names) if ours is None else ours

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.ours)}

    @cached_property
    def _called(self) -> dict[str, list[str]]:
        """Our names of the columns with each stored name."""
        found: dict[str, list[str]] = {}
        for name, ours in zip(self.names, self.ours, strict=True):
            found.setdefault(name, []).append(ours)
        return found

    def of(self, name: str) -> str:
        """The name that this one of our columns is stored by."""
        return self.names[self._places[name]]

    def stored(self, columns: Sequence[str]) -> list[str]:
        """The names that these of our columns are stored by; several without a name have one."""
        return list(columns) if self.names == self.ours else list(dict.fromkeys(map(self.of, columns)))

    def called(self, found: Found, columns: Sequence[str]) -> Found:
        """These columns by our names. found: at least all columns with their names; those of one name in order."""
        if self.names != self.ours:
            left = {name: iter(self._called[name]) for name in found.schema.names}
            found = type(found).from_arrays(found.columns, names=[next(left[name]) for name in found.schema.names])
        return found.select(list(columns))
