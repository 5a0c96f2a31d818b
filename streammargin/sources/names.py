"""Column names: object arrays of str, so that one long name does not widen all the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.wording import in_list, short, shown

SHOWN_NAMES = 5  # in a message
LISTED = 10  # names of a list
COMMON, ALL_COLUMNS = "common", "all"  # columns of files whose columns differ: those that all have, or any has
Columns: TypeAlias = "str | Sequence[str] | None"  # that are taken of files: COMMON, ALL_COLUMNS, or their names


def chosen(columns: Columns) -> TypeGuard[Sequence[str]]:
    """Whether these are names. Raises UsageError for another word than COMMON and ALL_COLUMNS."""
    if isinstance(columns, str) and columns not in (COMMON, ALL_COLUMNS):
        raise UsageError(f"`columns` must be {COMMON}, {ALL_COLUMNS} or a list of names, not {shown(columns)}")
    return columns is not None and not isinstance(columns, str)


def of_others(columns: Columns) -> str | None:
    """What a model takes of files with other columns, as after COMMON or ALL_COLUMNS: of names, others are left out."""
    return COMMON if chosen(columns) else None if columns is None else str(columns)


def held_bytes(names: np.ndarray) -> int:
    """Bytes of names in memory: the objects, the references, and the allocator's rounding."""
    return sum(map(sys.getsizeof, names)) + 24 * len(names)


def as_names(values: Iterable[Any], where: str) -> np.ndarray:
    """Names (d,) as objects, each a str. Raises DataError for a name that is not valid UTF-8 or contains a NUL."""
    found = list(values)
    names = np.empty(len(found), object)
    for column, value in enumerate(found):
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
            if not isinstance(text, str) or b"\0" in text.encode("utf-8"):
                raise ValueError
            names[column] = str(text)  # plain str from NumPy's str_ too
        except ValueError:
            raise DataError(
                f"{where}: the name of column {column} is not valid UTF-8, or contains a NUL; rename it"
            ) from None
    return names


def frame_names(X: Any, where: str) -> np.ndarray | None:
    """The column names of a pandas or polars frame, or None if not all are strings, as in scikit-learn; of AnnData."""
    columns = getattr(X, "columns", getattr(X, "var_names", None))
    if columns is None:
        return None
    found = list(columns)
    return as_names(found, where) if found and all(isinstance(name, str) for name in found) else None


def equal(names: np.ndarray | None, others: np.ndarray | None) -> bool:
    """Whether both are the same names in the same order, or both None."""
    if names is None or others is None:
        return names is others
    return np.array_equal(names, others)


def check_same(names: np.ndarray | None, others: np.ndarray | None, first: str, other: str) -> None:
    """DataError if the column names of `other` (others) and `first` (names) differ, in content or order."""
    if equal(names, others):
        return
    if names is None or others is None:
        with_names, without = (first, other) if others is None else (other, first)
        raise DataError(f"{without} has no column names, but {with_names} has; write both with names, or both without")
    hint = "write one of them again with the columns in the order of the other"
    if len(names) != len(others):
        raise DataError(f"{other} has {len(others)} columns but {first} has {len(names)}; {hint}")
    column = int(np.argmax(names != others))
    what = "its columns in another order than" if set(names) == set(others) else "other columns than"
    raise DataError(
        f"{other} has {what} {first}: column {column} is {short(others[column])}, not {short(names[column])}; {hint}"
    )


def listed(names: Iterable[str], cut: Callable[[str], str] = in_list) -> str:
    """The first few names, for messages."""
    found = list(names)
    return ", ".join(map(cut, found[:SHOWN_NAMES])) + (
        f" and {len(found) - SHOWN_NAMES} more" if len(found) > SHOWN_NAMES else ""
    )


def all_of(names: Sequence[str], cut: Callable[[str], str] = in_list) -> str:
    """Names in a message: all if few, else the first ones and the last, as the label is often last."""
    if len(names) <= LISTED:
        return ", ".join(map(cut, names))
    return f"{', '.join(map(cut, names[: LISTED - 2]))}, ... and {cut(names[-1])} ({len(names)} in all)"


def packed(names: np.ndarray) -> np.ndarray:
    """Names (d,), d >= 1, as bytes: UTF-8, separated by NUL."""
    return np.frombuffer("\0".join(names).encode("utf-8"), np.uint8)


def packed_texts(labels: np.ndarray) -> np.ndarray:
    """Labels as a model file has them: text that is objects as its bytes, each one of type S1; others as they are."""
    return packed(labels).view("S1") if labels.dtype == object else labels


def unpacked(array: np.ndarray) -> np.ndarray:
    """The inverse of `packed`. Raises ValueError if the bytes are not UTF-8."""
    return np.array(array.tobytes().decode("utf-8").split("\0"), object)
