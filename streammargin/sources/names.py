"""Names of columns: texts, as objects, so that one long name does not widen all the others."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.wording import one_line

SHOWN = 5  # names in a message


def held_bytes(names: np.ndarray) -> int:
    """Bytes of names that are in memory: the objects, the references, and what the allocator rounds up."""
    return sum(map(sys.getsizeof, names)) + 24 * len(names)


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


def frame_names(X: Any, where: str) -> np.ndarray | None:
    """The names of the columns of a frame of pandas or polars where all are texts, as scikit-learn takes them."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    found = list(columns)
    return as_names(found, where) if found and all(isinstance(name, str) for name in found) else None


def equal(names: np.ndarray | None, others: np.ndarray | None) -> bool:
    """Whether these are the same names in the same order, or none both."""
    if names is None or others is None:
        return names is others
    return np.array_equal(names, others)


def check_same(names: np.ndarray | None, others: np.ndarray | None, first: str, other: str) -> None:
    """DataError where the columns of `other` are not those of `first`, which have `names`, in the same order."""
    if equal(names, others):
        return
    if names is None or others is None:
        with_names, without = (first, other) if others is None else (other, first)
        raise DataError(
            f"{without} has no names of columns, but {with_names} has; write both with names, or both without"
        )
    mend = "write one of them again with its columns in the order of the other"
    if len(names) != len(others):
        raise DataError(f"{other} has {len(others)} columns but {first} has {len(names)}; {mend}")
    column = int(np.argmax(names != others))
    what = "its columns in another order than" if set(names) == set(others) else "other columns than"
    raise DataError(
        f"{other} has {what} {first}: column {column} is {one_line(others[column])}, there "
        f"{one_line(names[column])}; {mend}"
    )


def listed(names: Iterable[str]) -> str:
    """The first few names, for messages."""
    found = list(names)
    return ", ".join(map(one_line, found[:SHOWN])) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")


def packed(names: np.ndarray) -> np.ndarray:
    """Names (d,) as bytes: UTF-8 with a NUL between each and the next. d >= 1."""
    return np.frombuffer("\0".join(names).encode("utf-8"), np.uint8)


def unpacked(array: np.ndarray, columns: int) -> np.ndarray:
    """The names that `packed` made bytes of. Raises ValueError for what it did not make of so many."""
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f"its names of columns are an array of shape {array.shape} and type {array.dtype}, not bytes")
    count = array.size - np.count_nonzero(array) + 1  # before they are made, which takes far more than their bytes
    if count != columns:
        raise ValueError(f"it has {count} names for {columns} columns")
    return np.array(array.tobytes().decode("utf-8").split("\0"), object)
