"""Labels: check them, count their distinct values, and turn rows into class codes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.matching import EXACT_BELOW, MAX_CLASSES, number_in, of_one_kind, plain, text_fault, unpointed
from streammargin.wording import counted, short, shown
from streammargin.workers import ALONE, Workers

WIDEST = 64  # characters of text in an array of fixed width; a row of it takes four bytes for each
Origin = Callable[[int], tuple[str, int]]  # row -> (file, row in it), for messages (Source.place)


def lie_inside(value: object) -> bool:
    """Whether labels or numbers given so lie in the file of the rows: no array, FILE.npy or FILE:NAME."""
    return isinstance(value, str) and not os.path.isfile(value if value.endswith(".npy") else value.rpartition(":")[0])


def as_texts(texts: Sequence[str]) -> np.ndarray:
    """Text as an array: of fixed width if no text is longer than WIDEST, else of objects, as each row takes as much."""
    return np.array(texts, str if max(map(len, texts), default=0) <= WIDEST else object)


def is_text(labels: np.ndarray) -> bool:
    """Whether labels are text, of fixed width or objects."""
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and set(map(type, labels.tolist())) <= {str})


def as_values(chunk: np.ndarray, origin: Origin = lambda row: ("y", row)) -> np.ndarray:
    """Labels as an array of numbers, booleans or text (bytes are decoded), or of objects if both are among them.

    origin: of the chunk's rows. Raises DataError for text with invalid UTF-8, a NUL or half a surrogate pair.
    """
    chunk = np.asarray(chunk)
    if chunk.dtype.kind in "SO":
        values = [_decoded(value, row, origin) for row, value in enumerate(chunk.tolist())]
        texts = sum(isinstance(value, str) for value in values)
        try:
            if 0 < texts == len(values):
                found = as_texts(values)
            else:
                found = np.array(values, object if texts else _type_of_whole(values))
        except ValueError:  # lists of different lengths
            return chunk
        if found.dtype.kind == "f" and any(isinstance(value, int) and abs(value) > EXACT_BELOW for value in values):
            found = np.array(values, object)
        if found.dtype.kind == "O" and found.ndim == 1:
            return _as_objects(values)
        return found if found.ndim == chunk.ndim else chunk
    if chunk.dtype.kind == "U":
        bad = text_fault(chunk)
        if bad >= 0:
            raise _no_text(bad, origin)
    return chunk


def class_values(raw: np.ndarray, name: str, origin: Origin, noun: str = "label") -> np.ndarray:
    """Class labels as numbers, booleans or text, or objects if both are among them. noun: what they are.

    DataError for other types, and for a missing label, naming the row.
    """
    chunk = _present(raw, origin, noun)
    if chunk.dtype.kind == "O" and all(isinstance(value, (str, int, float)) for value in chunk.tolist()):
        finite = np.array([isinstance(value, str) or math.isfinite(value) for value in chunk.tolist()], bool)
    else:
        finite = np.isfinite(chunk) if chunk.dtype.kind == "f" else np.ones(1, bool)
        if chunk.dtype.kind not in "biufU":
            raise DataError(f"{name}: {noun}s must be numbers or text, not {chunk.dtype}")
    if not finite.all():
        bad = int(np.flatnonzero(~finite)[0])
        alike = sum(np.isnan(value) == np.isnan(chunk[bad]) for value in chunk[~finite].tolist())
        what = "NaN" if np.isnan(chunk[bad]) else "infinite"
        where, row = origin(bad)
        raise DataError(f"{where}: the {noun} of row {row} is {what}{mended(alike, noun)}")
    return chunk


def mended(rows: int, noun: str, least: str = "at least ", how: str = "") -> str:
    """The end of a message on the first of so many rows without a label.

    least: "" if all rows were counted; how: the library that drops them and its code, "" for none.
    """
    by = how and f", in {how},"
    if rows == 1:
        return f"; drop the row{by} or give it a {noun}"
    return f", as in {least}{counted(rows - 1, 'more row')}; drop these rows{by} or give them {noun}s"


def output_names(count: int) -> list[str]:
    """The names of outputs that have none."""
    return [f"y{k}" for k in range(count)]


def number_rows(raw: np.ndarray, why: str, origin: Origin, outputs: Sequence[str] | None = None) -> np.ndarray:
    """`number_values` of labels (m,), or of (m, outputs) with these names."""
    if raw.ndim == 1:
        return number_values(raw, why, origin)
    if raw.dtype.kind in "biuf" and np.isfinite(raw).all():
        return raw.astype(np.float64)
    names = output_names(raw.shape[1]) if outputs is None else outputs
    columns = [
        number_values(column, why, origin, f"label {short(name)}") for column, name in zip(raw.T, names, strict=True)
    ]
    return np.ascontiguousarray(np.transpose(columns))


def number_values(raw: np.ndarray, why: str, origin: Origin, noun: str = "label") -> np.ndarray:
    """Labels as float64, those of text by what they spell.

    Raises DataError for a value that is not finite, and DataError(why) if a text is no number, or for other types.
    """
    chunk = _present(raw, origin, noun)
    if chunk.dtype.kind in "UO":
        chunk = _numbers_of_texts(chunk, why, origin, noun)
    if chunk.dtype.kind not in "biuf":
        raise DataError(why)
    numbers = chunk.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        where, row = origin(int(bad[0]))
        raise DataError(f"{where}: the {noun} of row {row} is {numbers[bad[0]]}; drop the row or replace it")
    return numbers


def _numbers_of_texts(chunk: np.ndarray, why: str, origin: Origin, noun: str) -> np.ndarray:
    """Float64 of texts, and of objects, that are numbers. Raises DataError(why) if one is not."""
    numbers = np.empty(len(chunk))
    for row, value in enumerate(chunk.tolist()):
        number = _as_float(value)
        if number is None:
            where, place = origin(row)
            raise DataError(f"{why}; {where}: the {noun} of row {place} is {shown(value)}")
        numbers[row] = number
    return numbers


def _as_float(value: Any) -> float | None:
    """The number that a label is, or that its text spells; None for anything else."""
    if isinstance(value, str):
        value = number_in(value)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _type_of_whole(values: list[Any]) -> type | None:
    """The type that holds these labels if all are whole numbers, of which some are large; None: NumPy finds it."""
    if not all(type(value) is int for value in values) or max(values, default=0) < 2**63:
        return None
    return np.uint64 if min(values) >= 0 and max(values) < 2**64 else object


def _as_objects(values: list[Any]) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = [plain(value) for value in values]
    return found


def _present(raw: np.ndarray, origin: Origin, noun: str = "label") -> np.ndarray:
    """`as_values`; DataError if a label is missing."""
    check_present(raw, origin, noun)
    return as_values(raw, origin)


def check_present(raw: np.ndarray, origin: Origin = lambda row: ("y", row), noun: str = "label") -> None:
    """DataError for the first row of labels (m,), or (m, outputs), that lacks one."""
    if raw.dtype.kind not in "OT":
        return
    missing = [
        k for k, value in enumerate(raw.tolist())
        if (any(map(_is_missing, value)) if isinstance(value, list) else _is_missing(value))
    ]  # fmt: skip
    if missing:
        where, row = origin(missing[0])
        raise DataError(f"{where}: row {row} has no {noun}{mended(len(missing), noun)}")


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


def census(
    chunks: Iterable[np.ndarray],
    rows: int,
    name: str = "y",
    origin: Origin | None = None,
    coded: bool = True,
    noun: str = "label",
    workers: Workers = ALONE,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One read of the labels, a chunk a thread: (classes sorted, codes (rows,) int16, counts of each class).

    origin: row -> (file, row in it), for messages (Source.place). coded: False counts labels without making codes.
    Raises DataError for a label that is NaN or infinite, for more than 32767 classes, or for a wrong number of labels.
    """
    origin = origin or (lambda row: (name, row))
    codes = np.empty(rows if coded else 0, np.int16)
    counts = np.zeros(0, np.int64)
    kinds: set[np.dtype] = set()  # of the numbers
    order: list = []  # labels in order of first appearance: provisional codes
    number: dict = {}
    start = 0

    def counted(piece: tuple[int, np.ndarray]) -> tuple[np.dtype, np.ndarray, np.ndarray, np.ndarray]:
        chunk = class_values(piece[1], name, shifted(origin, piece[0]), noun)
        values, inverse = distinct(chunk)
        return chunk.dtype, values, inverse, np.bincount(inverse, minlength=len(values))

    for kind, values, inverse, found in workers.each(counted, _numbered(chunks), workers.threads):
        stop = start + len(inverse)
        if kind.kind not in "UO":
            kinds.add(kind)
        for value in values.tolist():
            if value not in number:
                number[value] = len(order)
                order.append(value)
        if len(order) > MAX_CLASSES:
            raise DataError(
                f"{name}: more than {MAX_CLASSES} different {noun}s by row {stop}; "
                "these look like targets of a regression, not classes"
            )
        here = np.array([number[value] for value in values.tolist()], np.int16)
        if stop > rows:
            raise DataError(f"{name}: more {noun}s than the {rows} rows")
        if coded:
            codes[start:stop] = here[inverse]
        counts = np.append(counts, np.zeros(len(order) - len(counts), np.int64))
        counts[here] += found
        start = stop
    if start != rows:
        raise DataError(f"{name}: {start} {noun}s for {rows} rows; there must be one for each row")
    classes, rank = _sorted(order, kinds, name)
    if not np.array_equal(rank, np.arange(len(order))):
        for begin in range(0, len(codes), 1 << 20):  # in place: no second vector of length n
            codes[begin : begin + (1 << 20)] = rank[codes[begin : begin + (1 << 20)]]
    return classes, codes, np.bincount(rank, counts, minlength=len(classes)).astype(np.int64)


def _numbered(chunks: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """(number of its first row, chunk) of each chunk."""
    start = 0
    for chunk in chunks:
        yield start, chunk
        start += len(chunk)


def _sorted(labels: list[Any], kinds: set[np.dtype], name: str) -> tuple[np.ndarray, np.ndarray]:
    """(classes sorted, which of them each of these labels is); kinds: the types of the numbers among them.

    Raises DataError if no type holds all of them.
    """
    values, places = of_one_kind(labels, name)
    numbers = not isinstance(values[0], str)
    unsorted = np.array(values, np.result_type(*kinds) if kinds else None) if numbers else as_texts(values)
    for value, held in zip(values, unsorted.tolist(), strict=True):
        if value != held:
            raise DataError(
                f"{name}: no type of numbers holds the label {shown(value)} beside the others; write them as text"
            )
    place = np.argsort(unsorted, kind="stable")
    rank = np.empty(len(values), np.int16)
    rank[place] = np.arange(len(values), dtype=np.int16)
    return unsorted[place], rank[places]


def distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(distinct values; index of each label (m,) among them). Two numbers, or whole ones of a few, need no sort."""
    if labels.dtype.kind == "O":
        places: dict[Any, int] = {}
        inverse = [places.setdefault(label, len(places)) for label in labels.tolist()]
        return _as_objects(list(places)), np.array(inverse, np.int64)
    if labels.size and labels.dtype.kind in "biuf":
        low, high = labels.min(), labels.max()
        above = labels == high
        if low < high and np.count_nonzero(above) + np.count_nonzero(labels == low) == labels.size:
            return np.array([low, high]), above.astype(np.int64)
        if labels.dtype.kind in "iu" and int(high) - int(low) < labels.size:
            offsets = (labels - low).view(f"u{labels.itemsize}").astype(np.int64)  # modulo their type
            seen = np.bincount(offsets) > 0
            return low + np.flatnonzero(seen).astype(labels.dtype), (np.cumsum(seen) - 1)[offsets]
    return np.unique(labels, return_inverse=True)


def shifted(origin: Origin, start: int) -> Origin:
    """The origin of the rows of a part that begins at row `start`."""
    return lambda row: origin(start + row)


def _is_missing(value: object) -> bool:
    """Whether this is None, NaN, or a missing value of pandas or NumPy."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    return type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")


@dataclass
class LabelCursor:
    """Returns any number of labels at a time, (m,) or (m, outputs), from chunks of other lengths."""

    chunks: Iterator[np.ndarray]
    left: np.ndarray = field(default_factory=lambda: np.empty(0))

    def take(self, count: int) -> np.ndarray:
        """The next `count` labels."""
        parts, have = [], 0
        while have < count:
            if not len(self.left):
                self.left = next(self.chunks)
            parts.append(self.left[: count - have])
            self.left = self.left[count - have :]
            have += len(parts[-1])
        return _joined(parts) if len(parts) > 1 else parts[0]


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """These labels in one array, of objects if text, or whole numbers that a float would round, stand beside others.

    Such are those of shards of different types.
    """
    if parts[0].ndim == 1 and len({part.dtype for part in parts}) > 1 and {part.dtype.kind for part in parts} != {"U"}:
        return _as_objects([label for part in parts for label in part.tolist()])
    return np.concatenate(parts)


ATTRIBUTE = "label_column"  # of the dataset of labels
TASKS = "tasks"  # the dataset of the tasks of rows of a table


@dataclass(frozen=True)
class LabelColumn:
    """Where labels to be written are from.

    `name`     that of a column of a table, or its number from 0 if columns have no names. None: of no table.
    `spelt`    whether they are spelt as in the table. Then `values_of` decides what they are.
    `outputs`  the names of their columns, if they are (n, outputs), else None.
    `tasks`    the column of the tasks of rows, "" for none.
    """

    name: str | int | None
    spelt: bool = False
    outputs: Sequence[str] | None = None
    tasks: str = ""


def values_of(spellings: Sequence[str]) -> np.ndarray:
    """The labels that these different spellings stand for, one each: numbers (int64 or float64), or text as it is.

    They are numbers if all are, and if no number is spelt in two ways; `unpointed` says what is one. More than
    MAX_CLASSES numbers are no classes, so their spellings do not matter.
    """
    numbers = [number_in(text) for text in spellings]
    alike = len(set(numbers)) < len(set(map(unpointed, spellings))) <= MAX_CLASSES
    if None in numbers or alike:
        return np.array(spellings, object)
    reals = np.array(numbers, np.float64)
    whole = all(isinstance(number, int) or number.is_integer() for number in numbers if number is not None)
    return reals.astype(np.int64) if whole and np.abs(reals).max(initial=0.0) < 2.0**53 else reals
