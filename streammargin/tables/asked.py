"""The options for a table: which columns, and the values for gaps and unknown categories."""

from __future__ import annotations

from dataclasses import dataclass

from streammargin.errors import UsageError
from streammargin.wording import shown

ERROR, ZERO, INDICATOR = "error", "zero", "indicator"


@dataclass(frozen=True)
class Asked:
    """Options about the columns of a table.

    `y`            the column of the labels, by name or by number from 0 (-1 is the last), or several by their names.
                   None: one called label, class, target or y. "": there is none.
    `columns`      those to take, () for all.
    `drop`         columns to leave out.
    `categorical`  columns whose values are words, whatever they look like.
    `text`         names of columns of text with their longest n-grams.
    `decimal`      the mark of numbers that may be read in two ways.
    `dates`        whether dates are expanded, or day-first or month-first if they may be read in two ways. None: they
                   are refused.
    `missing`      what replaces gaps. None: a gap is an error.
    `unknown`      ERROR, or ZERO if a word that no row of the training had counts as none.
    """

    y: str | int | tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    text: tuple[tuple[str, int], ...] = ()
    decimal: str | None = None
    dates: str | bool | None = None
    missing: str | None = None
    unknown: str = ERROR

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if self.unknown not in (ERROR, ZERO):
            raise UsageError(f"`unknown` must be {ERROR} or {ZERO}, not {shown(self.unknown)}")
