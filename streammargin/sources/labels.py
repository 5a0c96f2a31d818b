"""Labels: a census of their values, and rows as class numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from streammargin.errors import DataError

MAX_CLASSES = np.iinfo(np.int16).max
EXACT = 2.0**53  # as float64, labels from here on are merged with their neighbours


Origin = Callable[[int], tuple[str, int]]  # a row -> where it comes from, for messages (Source.place)


def as_values(chunk: np.ndarray, origin: Origin = lambda row: ("y", row)) -> np.ndarray:
    """Labels as an array of numbers, booleans or text (bytes are decoded).

    origin: of the rows of the chunk. Raises DataError for text that cannot be written anywhere: bytes that are not
    UTF-8, NUL, halves of characters.
    """
    chunk = np.asarray(chunk)
    if chunk.dtype.kind in "SO":
        values = [_decoded(value, row, origin) for row, value in enumerate(chunk.tolist())]
        text = chunk.dtype.kind == "S" or any(isinstance(value, str) for value in values)
        try:
            found = np.array([str(value) for value in values] if text else values)
        except ValueError:  # lists of unlike lengths
            return chunk
        return found if found.ndim == chunk.ndim else chunk
    if chunk.dtype.kind == "U":
        bad = text_fault(chunk)
        if bad >= 0:
            raise _no_text(bad, origin)
    return chunk


def class_values(raw: np.ndarray, name: str, origin: Origin) -> np.ndarray:
    """Labels of classes as numbers, booleans or text. Raises DataError for others, and for a missing one, by row."""
    chunk = _present(raw, origin)
    if chunk.dtype.kind == "f" and not np.isfinite(chunk).all():
        bad = int(np.flatnonzero(~np.isfinite(chunk))[0])
        what = "NaN" if np.isnan(chunk[bad]) else "infinite"
        where, row = origin(bad)
        raise DataError(f"{where}: the label of row {row} is {what}; drop the row or give it a label")
    if chunk.dtype.kind not in "biufU":
        raise DataError(f"{name}: labels must be numbers or text, not {chunk.dtype}")
    return chunk


def number_values(raw: np.ndarray, why: str, origin: Origin) -> np.ndarray:
    """Labels as numbers, float64. Raises DataError, which is `why`, for others, and for one that is not finite."""
    chunk = _present(raw, origin)
    if chunk.dtype.kind not in "biuf":
        raise DataError(why)
    numbers = chunk.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        where, row = origin(int(bad[0]))
        raise DataError(f"{where}: the label of row {row} is {numbers[bad[0]]}; drop the row or replace it")
    return numbers


def _present(raw: np.ndarray, origin: Origin) -> np.ndarray:
    """`as_values`, of labels of which none is missing."""
    missing = [k for k, value in enumerate(raw.tolist()) if _is_missing(value)] if raw.dtype.kind in "OT" else []
    if missing:
        where, row = origin(missing[0])
        raise DataError(f"{where}: row {row} has no label; drop the row or give it one")
    return as_values(raw, origin)


def text_fault(values: np.ndarray) -> int:
    """The first entry of an array of text (n,) that is none, or -1: looked at as numbers, since Python may not."""
    unit = np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)
    codes = np.ascontiguousarray(values).view(unit).reshape(len(values), values.dtype.itemsize // 4)
    bad = (codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))
    bad[:, :-1] |= (codes[:, :-1] == 0) & (codes[:, 1:] != 0)
    rows = bad.any(axis=1)
    return int(rows.argmax()) if rows.any() else -1


def _decoded(value: Any, row: int, origin: Origin) -> Any:
    """Bytes as text, anything else as it is."""
    try:
        text = value.decode("utf-8") if isinstance(value, bytes) else value
        if isinstance(text, str) and b"\0" in text.encode("utf-8"):
            raise ValueError
    except ValueError as error:
        raise _no_text(row, origin) from error
    return text


def _no_text(row: int, origin: Origin) -> DataError:
    where, row = origin(row)
    return DataError(f"{where}: the label of row {row} is no text in UTF-8, or holds a NUL; write it differently")


def is_plain(text: str) -> bool:
    """Whether a text that Python takes for a number is spelt as others would: 1_000, digits and blanks of other scripts
    and control characters are not."""
    return "_" not in text and text.isascii() and text.isprintable()


def strict_number(text: str) -> float:
    """The number that a text is in every language. Raises ValueError."""
    if not is_plain(text):
        raise ValueError(text)
    return float(text)


def label_key(label: Any) -> str:
    """One text for all ways to write a label: 1, 1.0, np.float32(1), True and "1" are one class."""
    if isinstance(label, (bool, np.bool_)):
        return str(int(label))
    if isinstance(label, str) and not is_plain(label):
        return label
    for kind in (int, float):  # whole numbers first: those beyond 2^53 are no floats
        try:
            number = kind(label)
        except (TypeError, ValueError, OverflowError):
            continue
        if isinstance(label, str) or number == label:
            whole = isinstance(number, int) or number.is_integer()
            return str(int(number)) if whole else f"{number:.17g}"
    return str(label)


def census(
    chunks: Iterable[np.ndarray], rows: int, name: str = "y", origin: Origin | None = None, coded: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One read of the labels: (classes sorted, codes (rows,) int16, counts of each class).

    origin: where a row comes from, for messages (Source.place); without it, from `name`. coded: without, labels are
    counted only, and no codes are made.
    Raises DataError for a label that is NaN or infinite, for more than 32767 classes, or for another number of labels.
    """
    origin = origin or (lambda row: (name, row))
    codes = np.empty(rows if coded else 0, np.int16)
    counts = np.zeros(0, np.int64)
    kind: np.dtype | None = None
    order: list = []  # classes in the order of their first appearance, which numbers them for now
    number: dict = {}
    start = 0
    for raw in chunks:
        chunk = class_values(raw, name, shifted(origin, start))
        if kind is not None and (kind.kind == "U") != (chunk.dtype.kind == "U"):
            # numbers in one chunk and text in another: all of them are text, wherever the chunks ended
            chunk = chunk.astype(str)
            order = [str(value) for value in order]
            number = {value: place for place, value in enumerate(order)}
        kind = chunk.dtype if kind is None else np.result_type(kind, chunk.dtype)
        values, inverse = distinct(chunk)
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
        if coded:
            codes[start : start + len(chunk)] = here[inverse]
        counts = np.append(counts, np.zeros(len(order) - len(counts), np.int64))
        counts[here] += np.bincount(inverse, minlength=len(values))
        start += len(chunk)
    if start != rows:
        raise DataError(f"{name}: {start} labels for {rows} rows; X and y must have the same length")
    assert kind is not None
    unsorted = np.array(order, dtype=kind if kind.kind != "U" else None)
    place = np.argsort(unsorted, kind="stable")
    rank = np.empty(len(order), np.int16)
    rank[place] = np.arange(len(order), dtype=np.int16)
    if not np.array_equal(place, np.arange(len(order))):
        for begin in range(0, len(codes), 1 << 20):  # in place: no second vector of length n
            codes[begin : begin + (1 << 20)] = rank[codes[begin : begin + (1 << 20)]]
    return unsorted[place], codes, counts[place]


def distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values in rising order, and which of them each label (m,) is. Two numbers, the usual case, need no sort."""
    if labels.size and labels.dtype.kind in "biuf":
        low, high = labels.min(), labels.max()
        above = labels == high
        if low < high and np.count_nonzero(above) + np.count_nonzero(labels == low) == labels.size:
            return np.array([low, high]), above.astype(np.int64)
    return np.unique(labels, return_inverse=True)


def shifted(origin: Origin, start: int) -> Origin:
    """Where the rows of a part come from, which are counted from its own row 0."""
    return lambda row: origin(start + row)


def _is_missing(value: object) -> bool:
    """None, NaN, or what pandas and NumPy put for them."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    return type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")


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
