"""Labels: a census of their values, and rows as class numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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


def census(chunks: Iterable[np.ndarray], rows: int, name: str = "y") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One read of the labels: (classes sorted, codes (rows,) int16, counts of each class).

    Raises DataError for a label that is NaN, for more than 32767 classes, or for another number of labels.
    """
    codes = np.empty(rows, np.int16)
    seen: np.ndarray | None = None
    order: list = []  # classes in the order of their first appearance, which numbers them for now
    number: dict = {}
    start = 0
    for raw in chunks:
        missing = [k for k, value in enumerate(raw.tolist()) if _is_missing(value)] if raw.dtype.kind == "O" else []
        if missing:
            raise DataError(f"{name}: row {start + missing[0]} has no label; drop the row or give it one")
        chunk = as_values(raw)
        if chunk.dtype.kind == "f" and np.isnan(chunk).any():
            row = start + int(np.flatnonzero(np.isnan(chunk))[0])
            raise DataError(f"{name}: the label of row {row} is NaN; drop the row or give it a label")
        if chunk.dtype.kind not in "biufU":
            raise DataError(f"{name}: labels must be numbers or text, not {chunk.dtype}")
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
        seen = values if seen is None else np.concatenate([seen[:0].astype(np.result_type(seen, values)), values[:0]])
    if start != rows:
        raise DataError(f"{name}: {start} labels for {rows} rows; X and y must have the same length")
    assert seen is not None
    unsorted = np.array(order, dtype=seen.dtype if seen.dtype.kind != "U" else None)
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
