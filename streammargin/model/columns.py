"""Where the columns of a model are among those of other rows, by their names."""

from __future__ import annotations

from collections import Counter

import numpy as np

from streammargin.driver.plan import check_read
from streammargin.errors import DataError, UsageError
from streammargin.sources.base import Source
from streammargin.sources.names import listed
from streammargin.wording import counted, one_line

ERROR, ZERO = "error", "zero"  # what columns are that the rows lack
_BYTES = 120  # of a name in the table that it is looked up in, while that grows


def checked(missing_columns: str) -> str:
    """The word, or UsageError."""
    if missing_columns not in (ERROR, ZERO):
        raise UsageError(f"`missing_columns` must be {ERROR} or {ZERO}, not {missing_columns!r}")
    return missing_columns


def room(known: np.ndarray, source: Source) -> int:
    """Bytes that reading the names of a source, and comparing them with those of a model, takes."""
    return source.names_bytes() + _BYTES * max(len(known), source.features)


def match(
    known: np.ndarray, given: np.ndarray, source: Source, memory: int, missing_columns: str, held: int = 0
) -> tuple[np.ndarray, str]:
    """(order (d,), what to say of it): column j of the model is column order[j] of the source, -1: there is none.

    known (d,): the model's names; given: those of the source, which are not the same list. Raises DataError where names
    stand for several columns, or are missing or unknown. Raises UsageError where `memory` is too small to compare them
    beside what is `held` already.
    """
    check_read(
        source, memory, held + room(known, source), "and compare the names of its columns, beside what is held already,"
    )
    for names, whose in ((given, source.name), (known, "the model")):
        if len(set(names)) < len(names):
            name, times = Counter(names).most_common(1)[0]
            raise DataError(
                f"{whose} has {times} columns of the name {one_line(name)}, and the names of {source.name} are not the "
                "same list as the model's; give every column a name of its own"
            )
    place = {name: column for column, name in enumerate(given.tolist())}
    order = np.array([place.pop(name, -1) for name in known.tolist()], np.int64)
    missing = known[order < 0]
    if place or (len(missing) and missing_columns == ERROR):
        lacking = list(missing) if missing_columns == ERROR else []
        raise DataError(_difference(source.name, lacking, list(place)))
    if len(missing):
        return order, (
            f"{source.name} lacks {counted(len(missing), 'column')} of the model's {len(known)} "
            f"({listed(missing)}): taken as 0, their weights are not used"
        )
    return order, f"the columns of {source.name} are in another order than the model's: they are matched by name"


def _difference(name: str, missing: list[str], unknown: list[str]) -> str:
    """What to say of columns that are not on both sides; options marked (see wording.py)."""
    parts, mends = [], []
    if missing:
        parts.append(f"lacks {counted(len(missing), 'column')} of the model ({listed(missing)})")
        mends.append("add those that are missing, or take them as 0 with `missing_columns=zero`")
    if unknown:
        parts.append(f"has {counted(len(unknown), 'column')} that the model does not know ({listed(unknown)})")
        mends.append("drop those that are unknown, as streammargin-data convert --like MODEL does for a CSV table")
    return f"{name} {' and '.join(parts)}; {'; '.join(mends)}"
