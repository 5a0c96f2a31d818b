"""The names of rows and columns of a matrix, numbered as they come, and then in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streammargin.errors import DataError
from streammargin.matching import unpointed
from streammargin.wording import shown

EACH = 120  # bytes of a name in memory, beside its text
UNKNOWN = -1


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
        """Number them anew, whole numbers by size and text by its letters; returns the new number of each one.

        After that no new one is known.
        """
        self.open = False
        names = [unpointed(name) for name in self.listed]
        self._whole = all(map(is_whole, names))
        names = names if self._whole else self.listed
        order = sorted(set(names), key=int) if self._whole else sorted(names)
        self.numbers = {name: number for number, name in enumerate(order)}
        return np.array([self.numbers[name] for name in names], np.int64)

    def codes(self, names: pa.Array, where: str) -> np.ndarray:
        """The numbers (m,) int64 of names (m,); new names get one each. DataError for a new one if all are known."""
        found = names if isinstance(names, pa.DictionaryArray) else names.dictionary_encode()
        texts = map(str, found.dictionary.to_pylist())
        codes = np.array([self._of(text) for text in texts], np.int64)[np.asarray(found.indices)]
        bad = np.flatnonzero(codes == UNKNOWN)
        if bad.size:
            name = str(names[int(bad[0])].as_py())
            raise DataError(
                f"{where}: the {self.noun} {shown(name)} had no rating in the training, so nothing is known of it; "
                "drop it, or train with ratings of it"
            )
        return codes

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


def is_whole(text: str) -> bool:
    """Whether this is a whole number in its shortest spelling."""
    try:
        return text == str(int(text))
    except ValueError:
        return False
