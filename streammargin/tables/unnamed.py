"""Columns without a name: what they are called, and which of them may be the index of a frame."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
