"""Columns without a name: what they are called, and which of them may be the index of a frame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

_UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)*")
_FIRST = re.compile(r"Unnamed: 0(\.\d+)*")
_OF_PANDAS = re.compile(r"__index_level_\d+__|__null_dask_index__")  # an index in Parquet, of pandas and of dask


def names_of(names: Iterable[object]) -> list[str]:
    """The names of the columns of a table as text; those without one by position, as pandas has them: `Unnamed: 3`.

    If another column has this name, `.1` is put behind it, or `.2` and so on.
    """
    found = ["" if is_blank(name) else str(name) for name in names]
    taken = set(found)
    for place, name in enumerate(found):
        if name:
            continue
        new, more = f"Unnamed: {place}", 0
        while new in taken:
            more += 1
            new = f"Unnamed: {place}.{more}"
        taken.add(new)
        found[place] = new
    return found


def is_blank(name: object) -> bool:
    """Whether a column has no name if this is what it is called: blanks, None, or NaN, as pandas may have it."""
    return name is None or name != name or (isinstance(name, str) and not name.strip())


def is_unnamed(name: str) -> bool:
    """Whether a column of this name had none."""
    return _UNNAMED.fullmatch(name) is not None


def is_stored_index(name: str) -> bool:
    """Whether pandas or dask wrote the index of a frame as this column."""
    return _OF_PANDAS.fullmatch(name) is not None


def may_be_index(name: str) -> bool:
    """Whether a column of this name is an index, if it holds different whole numbers: the first one without a name."""
    return is_stored_index(name) or _FIRST.fullmatch(name) is not None


class Stored:
    """The names that columns have in a file, beside ours.

    names: as they are stored; ours: the same in order, all different unless two columns have the same name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = list(names)
        self.ours: list[str] = names_of(self.names)
        self._of = dict(zip(self.ours, self.names, strict=True))
        self._called: dict[str, list[str]] = {}  # ours of the columns with each stored name
        for name, own in zip(self.names, self.ours, strict=True):
            self._called.setdefault(name, []).append(own)

    def of(self, name: str) -> str:
        """The name that this one of our columns is stored by."""
        return self._of[name]

    def stored(self, columns: Sequence[str]) -> list[str]:
        """The names that these of our columns are stored by; several without a name have one."""
        return list(columns) if self.names == self.ours else list(dict.fromkeys(map(self.of, columns)))

    def called(self, found: Any, columns: Sequence[str]) -> Any:
        """These columns by our names. found: a table or batch with all that have their names; those of one in order."""
        if self.names != self.ours:
            left = {name: iter(self._called[name]) for name in found.schema.names}
            found = type(found).from_arrays(found.columns, names=[next(left[name]) for name in found.schema.names])
        return found.select(list(columns))
