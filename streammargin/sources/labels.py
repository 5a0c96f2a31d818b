"""Labels: check them, count their distinct values, and turn rows into class codes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from streammargin.errors import DataError

MAX_CLASSES = np.iinfo(np.int16).max
EXACT = 2.0**53  # from here on, float64 cannot tell neighbouring whole numbers apart


Origin = Callable[[int], tuple[str, int]]  # row -> (file, row in it), for messages (Source.place)


def lie_inside(value: object) -> bool:
    """Whether labels or numbers given so lie in the file of the rows: no array, FILE.npy or FILE:NAME."""
    return isinstance(value, str) and not os.path.isfile(value if value.endswith(".npy") else value.rpartition(":")[0])


def as_values(chunk: np.ndarray, origin: Origin = lambda row: ("y", row)) -> np.ndarray:
    """Labels as an array of numbers, booleans or text (bytes are decoded).

    origin: of the chunk's rows. Raises DataError for text with invalid UTF-8, a NUL or half a surrogate pair.
    """
    chunk = np.asarray(chunk)
    if chunk.dtype.kind in "SO":
        values = [_decoded(value, row, origin) for row, value in enumerate(chunk.tolist())]
        text = chunk.dtype.kind == "S" or any(isinstance(value, str) for value in values)
        try:
            found = np.array([str(value) for value in values] if text else values)
        except ValueError:  # lists of different lengths
            return chunk
        return found if found.ndim == chunk.ndim else chunk
    if chunk.dtype.kind == "U":
        bad = text_fault(chunk)
        if bad >= 0:
            raise _no_text(bad, origin)
    return chunk


def class_values(raw: np.ndarray, name: str, origin: Origin) -> np.ndarray:
    """Class labels as numbers, booleans or text. DataError for other types, and for a missing label, naming the row."""
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
    """Labels as float64. Raises DataError(why) for other types, and a DataError for a value that is not finite."""
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
    """`as_values`; DataError where a label is missing."""
    missing = [k for k, value in enumerate(raw.tolist()) if _is_missing(value)] if raw.dtype.kind in "OT" else []
    if missing:
        where, row = origin(missing[0])
        raise DataError(f"{where}: row {row} has no label; drop the row or give it one")
    return as_values(raw, origin)


def text_fault(values: np.ndarray) -> int:
    """Index of the first invalid string in an array of text (n,), or -1; by code points, which never raises."""
    unit = np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)
    codes = np.ascontiguousarray(values).view(unit).reshape(len(values), values.dtype.itemsize // 4)
    bad = (codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))
    bad[:, :-1] |= (codes[:, :-1] == 0) & (codes[:, 1:] != 0)
    rows = bad.any(axis=1)
    return int(rows.argmax()) if rows.any() else -1


def _decoded(value: Any, row: int, origin: Origin) -> Any:
    """Bytes as text, anything else unchanged."""
    try:
        text = value.decode("utf-8") if isinstance(value, bytes) else value
        if isinstance(text, str) and b"\0" in text.encode("utf-8"):
            raise ValueError
    except ValueError as error:
        raise _no_text(row, origin) from error
    return text


def _no_text(row: int, origin: Origin) -> DataError:
    where, row = origin(row)
    return DataError(f"{where}: the label of row {row} is not valid UTF-8, or contains a NUL; write it differently")


def is_plain(text: str) -> bool:
    """Whether a text is printable ASCII without underscores: Python reads 1_000 as a number, other programs do not."""
    return "_" not in text and text.isascii() and text.isprintable()


def strict_number(text: str) -> float:
    """The number that a text means in every programming language. Raises ValueError."""
    if not is_plain(text):
        raise ValueError(text)
    return float(text)


def label_key(label: Any) -> str:
    """The same text for all spellings of a label: 1, 1.0, np.float32(1), True and "1" are one class."""
    if isinstance(label, (bool, np.bool_)):
        return str(int(label))
    if isinstance(label, str) and not is_plain(label):
        return label
    for kind in (int, float):  # int first: whole numbers beyond 2^53 are not exact as floats
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

    origin: row -> (file, row in it), for messages (Source.place). coded: False counts labels without making codes.
    Raises DataError for a label that is NaN or infinite, for more than 32767 classes, or for a wrong number of labels.
    """
    origin = origin or (lambda row: (name, row))
    codes = np.empty(rows if coded else 0, np.int16)
    counts = np.zeros(0, np.int64)
    kind: np.dtype | None = None
    order: list = []  # classes in order of first appearance: provisional codes
    number: dict = {}
    start = 0
    for raw in chunks:
        chunk = class_values(raw, name, shifted(origin, start))
        if kind is not None and (kind.kind == "U") != (chunk.dtype.kind == "U"):
            # numbers in one chunk and text in another: all are text, independent of the chunk bounds
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
                "these look like targets of a regression, not classes"
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
    """(distinct values, sorted; index of each label (m,) among them). Two numbers, the usual case, need no sort."""
    if labels.size and labels.dtype.kind in "biuf":
        low, high = labels.min(), labels.max()
        above = labels == high
        if low < high and np.count_nonzero(above) + np.count_nonzero(labels == low) == labels.size:
            return np.array([low, high]), above.astype(np.int64)
    return np.unique(labels, return_inverse=True)


def shifted(origin: Origin, start: int) -> Origin:
    """The origin of the rows of a part that begins at row `start`."""
    return lambda row: origin(start + row)


def _is_missing(value: object) -> bool:
    """Whether this is None, NaN, or a missing value of pandas or NumPy."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    return type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")


class LabelCursor:
    """Returns any number of labels at a time from chunks of other lengths."""

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
