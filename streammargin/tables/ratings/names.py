"""The names of rows and columns of a matrix, numbered as they come, then in order; checks of names and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.errors import DataError
from streammargin.matching import unpointed
from streammargin.tables.header import is_number
from streammargin.tables.readers.base import Reader
from streammargin.wording import one_line, shown

EACH = 120  # bytes of a name in memory, beside its text
UNKNOWN = -1
MOST = 2.0**63  # of names that are whole numbers


class Names:
    """Text of names, each with its number. noun: row, or column.

    If all are whole numbers, also with zeros behind a point, these zeros are left out (`unpointed`).
    """

    def __init__(self, noun: str, known: list[str] | None = None) -> None:
        self.noun, self.open = noun, known is None
        self._whole = known is not None and all(map(is_whole, known))
        self.numbers = {name: number for number, name in enumerate(known or [])}
        self.nbytes = sum(map(len, self.numbers)) + EACH * len(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def listed(self) -> list[str]:
        """All names, by their numbers."""
        return list(self.numbers)

    def sort(self) -> np.ndarray:
        """Number them anew, whole numbers by size and text by its letters; returns the new number of each one."""
        names = [unpointed(name) for name in self.listed]
        self._whole = all(map(is_whole, names))
        names = names if self._whole else self.listed
        order = sorted(set(names), key=int) if self._whole else sorted(names)
        self.numbers = {name: number for number, name in enumerate(order)}
        return np.array([self.numbers[name] for name in names], np.int64)

    def codes(self, names: pa.Array) -> np.ndarray:
        """The numbers (m,) int64 of names (m,); new names get one each, or are UNKNOWN if all are known."""
        found = names if isinstance(names, pa.DictionaryArray) else names.dictionary_encode()
        texts = map(str, found.dictionary.to_pylist())
        table = np.array([self._of(text) for text in texts], np.int64)
        return table[np.asarray(found.indices)]

    def _of(self, text: str) -> int:
        number = self.numbers.get(text)
        if number is None and self._whole and not self.open:
            number = self.numbers.get(unpointed(text))
        if number is None and self.open:
            if "\0" in text:  # which separates names in the model file
                raise DataError(f"the name {shown(text)} of a {self.noun} has a NUL character; rename it")
            number = self.numbers[text] = len(self.numbers)
            self.nbytes += len(text) + EACH
        return UNKNOWN if number is None else number

    def known(self, names: pa.Array, where: str) -> np.ndarray:
        """The same if all must be known. DataError names the first that is not."""
        codes = self.codes(names)
        bad = np.flatnonzero(codes == UNKNOWN)
        if bad.size:
            name = str(names[int(bad[0])].as_py())
            raise DataError(
                f"{where}: the {self.noun} {shown(name)} had no rating in the training, so nothing is known of it; "
                "drop it, or train with ratings of it"
            )
        return codes


def is_whole(text: str) -> bool:
    """Whether this is a whole number in its shortest spelling."""
    try:
        return text == str(int(text))
    except ValueError:
        return False


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
