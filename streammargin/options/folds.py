"""Values of the options cv and valid: folds of the rows, and a share of them that is held out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streammargin.errors import UsageError
from streammargin.kinds import ColumnName, Kind, Number, RowsFile, Whole, Word
from streammargin.wording import shown
from streammargin.words import Family, Thing, entry, needed

PAST = "past"
BEST, ONE_SE = "best", "1se"
SHARE_PATTERN = re.compile(r"(0?\.\d+|\d+(\.\d+)?%)")


class Folds(Thing):
    """Folds of the rows: each value of C is trained without each of them, judged on it, and trained on all rows.

    Rows are dealt to the folds in turn, each deal in an order drawn by `seed`. So sizes differ by one at most.
    """

    count: int = needed(Whole(2, "K"), "how many folds")
    by: str | None = entry(
        None, ColumnName("NAME|FILE:NAME"), "rows with one value of this column stay in one fold; none: rows are dealt "
        "one by one", kw_only=True,
    )  # fmt: skip
    order: str | None = entry(
        None, Word(("yes", PAST)), "yes: folds are stretches of consecutive rows; past: there are K + 1 of them, and "
        "each but the first is judged by a model of those before it; none: rows are dealt", kw_only=True,
    )  # fmt: skip
    rule: str = entry(
        BEST, Word((BEST, ONE_SE)), "best: the C with the smallest mean error of the folds; 1se: the smallest C within "
        "one standard error of it", kw_only=True,
    )  # fmt: skip

    def checked(self) -> Folds:
        made = super().checked()
        if made.by is not None and made.order is not None:
            raise UsageError("folds of `cv` are groups of rows, or stretches of rows; give by or order, and not both")
        return made

    def __str__(self) -> str:
        return super().__str__().partition(":")[2]


class _Numbers(Family[Folds]):
    """Folds begin with their number in place of a word, and errors spell them so."""

    def spelling(self, cls: type[Folds]) -> str:
        return "folds are spelt `cv=5`, `cv=5,by=NAME`, `cv=5,order=yes`, `cv=5,order=past` or `cv=5,rule=1se`"


FAMILY = _Numbers("cv", "options", Folds, {"folds": Folds})


class Known:
    """Folds that are given: the fold of each row (n,), or what splits rows as scikit-learn's splitters do."""

    by, order, rule = None, None, BEST

    def __init__(self, given: Any) -> None:
        self.given = given

    def __str__(self) -> str:
        return "given"


@dataclass(frozen=True)
class Cv(Kind):
    """K folds, with `by`, `order` and `rule`; in Python also Folds, the fold of each row, or a splitter."""

    metavar: str = "K[,by=NAME][,order=yes|past][,rule=best|1se]"

    def check(self, what: str, value: object) -> Folds | Known:
        if isinstance(value, (Folds, Known)):
            return FAMILY.of(value) if isinstance(value, Folds) else value
        if isinstance(value, str):
            return FAMILY.of(f"folds:{value}")
        several = getattr(value, "ndim", 0) > 0 or isinstance(value, Iterable)
        if several or callable(getattr(value, "split", None)):
            return Known(value)
        return FAMILY.of(f"folds:{Whole(2).check(what, value)}")

    @staticmethod
    def read_by(value: object) -> list[tuple[ColumnName, str]]:
        """(kind, name) of the column of groups, if there is one."""
        try:
            by = Cv().check("cv", value).by if value is not None else None
        except UsageError:  # reported where it is used
            return []
        return [] if by is None else [(ColumnName("NAME|FILE:NAME"), by)]


@dataclass(frozen=True)
class Share:
    """The part of the rows that is held out, as one of `count` folds."""

    part: float

    @property
    def count(self) -> int:
        """The number of folds, of which one is held out."""
        return round(1.0 / self.part)

    def __str__(self) -> str:
        return f"{self.part:g}"


@dataclass(frozen=True)
class HeldOut(RowsFile):
    """A file of rows, or a share of the rows: 20%, 0.2, in Python 0.2. A file of that name wins."""

    metavar: str = "DATA|SHARE"

    def check(self, what: str, value: object) -> object:
        if isinstance(value, str) and SHARE_PATTERN.fullmatch(value) and not os.path.exists(value):
            value = float(value[:-1]) / 100.0 if value.endswith("%") else float(value)
        if isinstance(value, str) and value.isdecimal() and not os.path.exists(value):
            raise UsageError(f"{what} is data, or a share of the rows such as {value}%, and no file is called {value}")
        if isinstance(value, (float, int)) and not isinstance(value, bool):
            fits = Number("data, or a share of the rows above 0 and up to 0.5", lambda part: 0.0 < part <= 0.5)
            return Share(fits.number(what, value))
        if isinstance(value, bool):
            raise UsageError(f"{what} must be data, or a share of the rows, not {shown(value)}")
        return value
