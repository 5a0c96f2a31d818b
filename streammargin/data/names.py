"""Names of columns: texts, as objects, so that one long name does not widen all the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from streammargin.errors import DataError

# of one name in memory: the reference, the object, and what the allocator rounds up
NAME_BYTES = 96
MOST_OF_TEXT = 4  # bytes in memory for one in UTF-8, at most


def counted(columns: int, text: int) -> int:
    """Bytes that the names of so many columns take at most, of `text` bytes of UTF-8."""
    return NAME_BYTES * columns + MOST_OF_TEXT * text


def as_names(values: Iterable[Any], where: str) -> np.ndarray:
    """Names (d,) as objects, each a str. Raises DataError for what is no text of UTF-8, or holds a NUL."""
    found = list(values)
    names = np.empty(len(found), object)
    for column, value in enumerate(found):
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
            if not isinstance(text, str) or b"\0" in text.encode("utf-8"):
                raise ValueError
            names[column] = str(text)  # of NumPy's kinds of text too
        except ValueError:
            raise DataError(
                f"{where}: the name of column {column} is no text in UTF-8, or holds a NUL; name it differently"
            ) from None
    return names
