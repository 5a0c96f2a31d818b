"""Check the values of a matrix, and the names of its rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.errors import DataError
from streammargin.tables.header import is_number
from streammargin.tables.readers.base import Reader
from streammargin.wording import one_line, shown

MOST = 2.0**63  # of names that are whole numbers


@dataclass(frozen=True)
class Check:
    """Checks of a file, a table or arrays, called `name`; reader: of a table. first: of the first entry."""

    name: str
    reader: Reader | None = None

    def numbers(self, values: Any, first: int) -> np.ndarray:
        """Ratings as float64. DataError for one that is no finite number."""
        raw = values
        if isinstance(values, pa.Array):
            values = values.to_numpy(zero_copy_only=False)
        if values.dtype.kind in "cmM":
            raise DataError(f"{self.name}: the ratings are of type {values.dtype}; write them as real numbers")
        try:
            numbers = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            bad, told = next((k, one) for k, one in enumerate(values.tolist()) if not is_number(one))
            where = self._place(first + bad)
            raise DataError(f"{self.name}, {where}: the rating is {shown(told)}, not a number") from None
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if wrong.size:
            k = int(wrong[0])
            what = "missing" if isinstance(raw, pa.Array) and not raw[k].is_valid else f"{numbers[k]}"
            raise DataError(f"{self.name}, {self._place(first + k)}: the rating is {what}; drop it, or write a number")
        return numbers

    def filled(self, names: pa.Array, first: int) -> pa.Array:
        """The same names. DataError for one that is missing."""
        texts = names.dictionary if isinstance(names, pa.DictionaryArray) else names
        blank = None
        if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
            blank = pc.equal(names.cast(texts.type), "")
        if names.null_count or (blank is not None and pc.any(blank).as_py()):
            absent = np.asarray(names.is_null()) | (False if blank is None else np.asarray(blank.fill_null(True)))
            where = self._place(first + int(np.flatnonzero(absent)[0]))
            raise DataError(f"{self.name}, {where}: the name of the row or column is missing; drop the rating")
        return names

    def named(self, names: np.ndarray, first: int) -> pa.Array:
        """Names of an array: whole numbers or text."""
        kinds = "rows and columns are named by whole numbers or text"
        if names.dtype.kind not in "biufUOS":
            raise DataError(f"{self.name}: {kinds}, not {names.dtype}")
        if names.dtype.kind == "f" and not np.all((names == np.trunc(names)) & (np.abs(names) < MOST)):
            raise DataError(f"{self.name}: {kinds}, not by fractions or numbers of 2^63 and more")
        if names.dtype.kind in "bif":
            return pa.array(names.astype(np.int64))
        if names.dtype.kind == "u":
            return pa.array(names)
        try:
            texts = [one.decode() if isinstance(one, bytes) else one for one in names.tolist()]
            return self.filled(pa.array(texts), first)
        except (pa.ArrowException, UnicodeError, OverflowError) as error:
            raise DataError(f"{self.name}: {kinds} in UTF-8, all of one kind; {one_line(str(error))}") from error

    def _place(self, entry: int) -> str:
        return f"entry {entry}" if self.reader is None else self.reader.place(entry)
