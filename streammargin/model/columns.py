"""Match the columns of a model with those of a source by name."""

from __future__ import annotations

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.model.rows import AnyRows
from streammargin.reading.plan import check_read, column_names
from streammargin.sources.base import Source
from streammargin.sources.columns import by_name
from streammargin.sources.names import ALL_COLUMNS, equal, listed
from streammargin.wording import MOST_COMPARED, counted, nearest, short, shown

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


def order_of(
    known: np.ndarray | None, rows: AnyRows, memory: int, missing_columns: str | None, held: int = 0,
    of_files: str | None = None,
) -> tuple[np.ndarray | None, str]:  # fmt: skip
    """(order as of `match`, or None if the columns go by position; warning, or "").

    known (d,): the model's names, or None; the others are as for `match`, which may raise. The number of columns is
    not compared if they go by position.
    """
    if known is None:
        return None, ""
    given = column_names(rows, memory, held) if isinstance(rows, Source) else rows.names
    if given is None:
        said = f"{rows.name} has no column names, though the model has: columns are matched by position"
        return None, said if isinstance(rows, Source) else ""
    if equal(known, given):
        return None, ""
    return match(known, given, rows, memory, missing_columns, held, of_files)


def match(
    known: np.ndarray, given: np.ndarray, rows: AnyRows, memory: int, missing_columns: str | None, held: int = 0,
    of_files: str | None = None,
) -> tuple[np.ndarray, str]:  # fmt: skip
    """(order (d,), warning): column j of the model is column order[j] of the rows, -1: missing.

    `known`            (d,): the model's names.
    `given`            those of the rows, a different list.
    `missing_columns`  ZERO, ERROR, or None if zeros cannot be asked for.
    `of_files`         COMMON or ALL_COLUMNS, if the files of the training had other columns than each other. Unknown
                       ones are then left out, and with ALL_COLUMNS missing ones are 0.

    Raises DataError if a name occurs twice, is missing or is unknown. Raises UsageError if `memory` is too small to
    compare those of a source, with `held` bytes used already.
    """
    order, unknown = places(known, given, rows, memory, held)
    missing, name = known[order < 0], rows.name
    lacking = list(missing) if missing_columns != ZERO and of_files != ALL_COLUMNS else []
    if len(missing) == len(known) and (missing_columns != ZERO or of_files is None):
        both = f"its first is {short(given[0])}, and that of the model is {short(known[0])}"
        lost = counted(len(missing), "column")
        raise DataError(f"{name} has none of the model's {lost}: {both}; use the same names")
    if lacking or (unknown and of_files is None):
        saved = missing_columns is not None
        may = ", or let them count as 0 with `missing_columns=zero`" * saved
        drop = None if of_files else ", as streammargin-data convert --like MODEL does" * saved
        raise DataError(difference(name, lacking, unknown, may, drop))
    said = []
    if len(missing):
        said.append(
            f"lacks {counted(len(missing), 'column')} of the model's {len(known)} ({listed(missing)}): they count as 0"
        )
    if unknown:
        more = counted(len(unknown), "column")
        said.append(f"has {more} that the model does not know ({listed(unknown)}): they are left out")
    if said:
        return order, f"{name} {'; it '.join(said)}"
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
    return by_name(known, given, rows.name)


def difference(name: str, missing: list[str], unknown: list[str], may: str, drop: str | None) -> str:
    """The error for missing and unknown columns; options in backquotes (see wording.py).

    may: how missing ones may stay away. drop: how to drop unknown ones; None if they may stay.
    """
    parts, hints = [], []
    if missing:
        parts.append(f"lacks {counted(len(missing), 'column')} of the model ({listed(missing)})")
        near = nearest(missing[0], unknown) if len(unknown) <= MOST_COMPARED else ""
        hints += [f"if {short(near)} is {short(missing[0])}, rename it"] if near else []
        hints.append(f"add the missing ones{may}")
    if unknown and drop is not None:
        parts.append(f"has {counted(len(unknown), 'column')} that the model does not know ({listed(unknown)})")
        hints.append(f"drop the unknown ones{drop}")
    return f"{name} {' and '.join(parts)}; {'; '.join(hints)}"
