"""Match the columns of a model with those of a source by name."""

from __future__ import annotations

from collections import Counter

import numpy as np

from streammargin.driver.plan import check_read
from streammargin.errors import DataError, UsageError
from streammargin.model.rows import AnyRows
from streammargin.sources.base import Source
from streammargin.sources.names import listed
from streammargin.wording import counted, short, shown

ERROR, ZERO = "error", "zero"  # how columns that the rows lack are treated
_BYTES = 120  # per name, of the dict used to look it up, while that grows


def checked(missing_columns: str) -> str:
    """The option's value, or UsageError."""
    if missing_columns not in (ERROR, ZERO):
        raise UsageError(f"`missing_columns` must be {ERROR} or {ZERO}, not {shown(missing_columns)}")
    return missing_columns


def matching_bytes(known: np.ndarray, source: Source) -> int:
    """Bytes needed to read a source's column names and to compare them with those of a model."""
    return source.names_bytes() + _BYTES * max(len(known), source.features)


def match(
    known: np.ndarray, given: np.ndarray, rows: AnyRows, memory: int, missing_columns: str, held: int = 0
) -> tuple[np.ndarray, str]:
    """(order (d,), warning): column j of the model is column order[j] of the rows, -1: missing.

    known (d,): the model's names; given: those of the rows, a different list. Raises DataError if a name occurs
    twice, is missing or is unknown. Raises UsageError if `memory` is too small to compare those of a source, with
    `held` bytes used already.
    """
    order, unknown = places(known, given, rows, memory, held)
    missing, name = known[order < 0], rows.name
    if unknown or (len(missing) and missing_columns == ERROR):
        lacking = list(missing) if missing_columns == ERROR else []
        raise DataError(_difference(name, lacking, unknown))
    if len(missing):
        return order, (
            f"{name} lacks {counted(len(missing), 'column')} of the model's {len(known)} "
            f"({listed(missing)}): they count as 0"
        )
    return order, f"the columns of {name} are in another order than the model's: matched by name"


def places(
    known: np.ndarray, given: np.ndarray, rows: AnyRows, memory: int, held: int = 0
) -> tuple[np.ndarray, list[str]]:
    """(order (d,) as `match` returns it, the names of the rows that the model does not know); arguments as there.

    Raises DataError if a name occurs twice, UsageError if `memory` is too small.
    """
    if isinstance(rows, Source):
        needed = held + matching_bytes(known, rows)
        check_read(rows, memory, needed, "and matching its column names, besides the model,")
    for names, whose in ((given, rows.name), (known, "the model")):
        if len(set(names)) < len(names):
            name, times = Counter(names).most_common(1)[0]
            raise DataError(
                f"{whose} has {times} columns named {short(name)}, so those of {rows.name} cannot be "
                "matched by name; give every column a name of its own"
            )
    place = {name: column for column, name in enumerate(given.tolist())}
    return np.array([place.pop(name, -1) for name in known.tolist()], np.int64), list(place)


def _difference(name: str, missing: list[str], unknown: list[str]) -> str:
    """The error for missing and unknown columns; options in backquotes (see wording.py)."""
    parts, hints = [], []
    if missing:
        parts.append(f"lacks {counted(len(missing), 'column')} of the model ({listed(missing)})")
        hints.append("add the missing ones, or let them count as 0 with `missing_columns=zero`")
    if unknown:
        parts.append(f"has {counted(len(unknown), 'column')} that the model does not know ({listed(unknown)})")
        hints.append("drop the unknown ones, as streammargin-data convert --like MODEL does for a CSV table")
    return f"{name} {' and '.join(parts)}; {'; '.join(hints)}"
