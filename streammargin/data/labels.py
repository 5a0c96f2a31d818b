"""Labels: a census of their values, and rows as class numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from streammargin.errors import DataError

MAX_CLASSES = np.iinfo(np.int16).max


def as_values(chunk: np.ndarray) -> np.ndarray:
    """Labels as an array of numbers, booleans or text (bytes are decoded)."""
    chunk = np.asarray(chunk)
    if chunk.dtype.kind == "S":
        return np.char.decode(chunk, "utf-8")
    if chunk.dtype.kind == "O":
        values = [v.decode("utf-8") if isinstance(v, bytes) else v for v in chunk.tolist()]
        return np.array([str(v) for v in values] if any(isinstance(v, str) for v in values) else values)
    return chunk


def label_key(label: Any) -> str:
    """One text for all ways to write a label: 1, 1.0, np.float32(1), True and "1" are one class."""
    if isinstance(label, (bool, np.bool_)):
        return str(int(label))
    if isinstance(label, str) and "_" in label:  # Python would read "1_0" as 10
        return label
    for kind in (int, float):  # whole numbers first: those beyond 2^53 are no floats
        try:
            number = kind(label)
        except (TypeError, ValueError, OverflowError):
            continue
        if isinstance(label, str) or number == label:
            return str(int(number)) if float(number).is_integer() else f"{number:.17g}"
    return str(label)


def census(
    chunks: Iterable[np.ndarray], rows: int, name: str = "y", origin: Callable[[int], tuple[str, int]] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One read of the labels: (classes sorted, codes (rows,) int16, counts of each class).

    origin: where a row comes from, for messages (Source.place); without it, from `name`.
    Raises DataError for a label that is NaN or infinite, for more than 32767 classes, or for another number of labels.
    """
    origin = origin or (lambda row: (name, row))
    codes = np.empty(rows, np.int16)
    kind: np.dtype | None = None
    order: list = []  # classes in the order of their first appearance, which numbers them for now
    number: dict = {}
    start = 0
    for raw in chunks:
        missing = [k for k, value in enumerate(raw.tolist()) if _is_missing(value)] if raw.dtype.kind == "O" else []
        if missing:
            where, row = origin(start + missing[0])
            raise DataError(f"{where}: row {row} has no label; drop the row or give it one")
        chunk = as_values(raw)
        if chunk.dtype.kind == "f" and not np.isfinite(chunk).all():
            bad = int(np.flatnonzero(~np.isfinite(chunk))[0])
            what = "NaN" if np.isnan(chunk[bad]) else "infinite"
            where, row = origin(start + bad)
            raise DataError(f"{where}: the label of row {row} is {what}; drop the row or give it a label")
        if chunk.dtype.kind not in "biufU":
            raise DataError(f"{name}: labels must be numbers or text, not {chunk.dtype}")
        if kind is not None and (kind.kind == "U") != (chunk.dtype.kind == "U"):
            # numbers in one chunk and text in another: all of them are text, wherever the chunks ended
            chunk = chunk.astype(str)
            order = [str(value) for value in order]
            number = {value: place for place, value in enumerate(order)}
        kind = chunk.dtype if kind is None else np.result_type(kind, chunk.dtype)
        values, inverse = np.unique(chunk, return_inverse=True)
        for value in values.tolist():
            if value not in number:
                number[value] = len(order)
                order.append(value)
        if len(order) > MAX_CLASSES:
            raise DataError(
                f"{name}: more than {MAX_CLASSES} different labels by row {start + len(chunk)}; "
                "these look like numbers to predict, not classes"
            )
        here = np.array([number[value] for value in values.tolist()], np.int16)
        if start + len(chunk) > rows:
            raise DataError(f"{name}: more labels than the {rows} rows")
        codes[start : start + len(chunk)] = here[inverse]
        start += len(chunk)
    if start != rows:
        raise DataError(f"{name}: {start} labels for {rows} rows; X and y must have the same length")
    assert kind is not None
    unsorted = np.array(order, dtype=kind if kind.kind != "U" else None)
    place = np.argsort(unsorted, kind="stable")
    rank = np.empty(len(order), np.int16)
    rank[place] = np.arange(len(order), dtype=np.int16)
    for begin in range(0, rows, 1 << 20):  # in place: no second vector of length n
        codes[begin : begin + (1 << 20)] = rank[codes[begin : begin + (1 << 20)]]
    counts = np.bincount(codes, minlength=len(order)) if rows < 1 << 20 else _counts(codes, len(order))
    return unsorted[place], codes, counts


def _is_missing(value: object) -> bool:
    """None, NaN, or what pandas puts for them."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _counts(codes: np.ndarray, classes: int) -> np.ndarray:
    total = np.zeros(classes, np.int64)
    for begin in range(0, len(codes), 1 << 20):
        total += np.bincount(codes[begin : begin + (1 << 20)], minlength=classes)
    return total


class LabelCursor:
    """Takes exactly as many labels as are wanted from chunks of any length."""

    def __init__(self, chunks: Iterator[np.ndarray]) -> None:
        self.chunks, self.left = chunks, np.empty(0)

    def take(self, count: int) -> np.ndarray:
        """The next `count` labels."""
        parts, have = [], 0
        while have < count:
            if not len(self.left):
                self.left = next(self.chunks)
            parts.append(self.left[: count - have])
            self.left = self.left[count - have :]
            have += len(parts[-1])
        return np.concatenate(parts) if len(parts) > 1 else parts[0]
