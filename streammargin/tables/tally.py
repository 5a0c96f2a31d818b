"""Count what the columns of a table hold: numbers, words, gaps."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streammargin.errors import DataError
from streammargin.matching import EXACT, is_plain
from streammargin.tables.header import is_number
from streammargin.tables.readers.base import Reader
from streammargin.tables.textfile import check_label
from streammargin.wording import short

BOOLEANS = {"true": 1.0, "false": 0.0}
MOST_DISTINCT = 1 << 18  # words of a column that are counted; with more it is no category


@dataclass
class Tally:
    """The counts of a column: rows, gaps, the sum of its numbers, and how often each of its words occurs.

    largest: of |x|. narrow: float32 holds its numbers well. first: the place of the first gap, and of the first value
    of each kind.
    """

    rows: int = 0
    gaps: int = 0
    numbers: int = 0
    total: float = 0.0
    largest: float = 0.0
    narrow: bool = True
    words: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, later: Tally) -> None:
        """Add what is known of the rows behind these."""
        self.rows, self.gaps = self.rows + later.rows, self.gaps + later.gaps
        self.numbers += later.numbers
        with np.errstate(over="ignore"):  # said if a mean is needed
            self.total += later.total
        self.largest, self.narrow = max(self.largest, later.largest), self.narrow and later.narrow
        self.words += later.words
        self.first = {**later.first, **self.first}


Tallying = Callable[[Reader, Sequence[str], Sequence[str], frozenset[str], Sequence[str]], dict[str, Tally]]


def kind_of(type_: pa.DataType) -> str:
    """number, words, "" for a column of gaps alone, or the name of another type."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if pa.types.is_null(type_):
        return ""
    numeric = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if any(holds(type_) for holds in numeric):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "words"
    return "date" if pa.types.is_temporal(type_) else str(type_)


def coded(column: pa.Array, gaps: Sequence[str] = ()) -> pa.Array:
    """Words as a dictionary of those that occur, in the order of their first rows; null for those of `gaps`.

    A long word that many rows hold takes its bytes once. A dictionary of numbers or dates becomes these.
    """
    kind = kind_of(column.type)
    if kind != "words":
        known = pa.types.is_dictionary(column.type) and kind in ("number", "date", "")
        return column.dictionary_decode() if known else column
    if not pa.types.is_dictionary(column.type):
        found = column.dictionary_encode()
        texts, codes = found.dictionary, found.indices
    else:
        used = column.indices.dictionary_encode()
        texts, codes = column.dictionary.take(used.dictionary), used.indices
    missing = pc.is_in(texts, value_set=pa.array([None, *gaps], texts.type)).to_numpy(zero_copy_only=False)
    if missing.any():
        places = np.append(np.where(missing, -1, np.cumsum(~missing) - 1), -1)  # the last is of a null
        rows = places[codes_of(codes)]
        texts, codes = texts.filter(pa.array(~missing)), pa.array(rows, pa.int32(), mask=rows < 0)
    return pa.DictionaryArray.from_arrays(codes, texts)


def codes_of(codes: pa.Array) -> np.ndarray:
    """Numbers of the words of rows (m,) int64; -1 for a gap."""
    return np.asarray(codes.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def row_of(column: pa.Array, place: int) -> int:
    """The first row of a column of words, as of `coded`, that has the word of this place in its dictionary."""
    return int(pc.index(column.indices, place).as_py())


def numbers_of(column: pa.Array) -> np.ndarray:
    """Numbers, booleans and words that are numbers (m,) float64; NaN for gaps. Raises ArrowInvalid for other words."""
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def of_decimals(column: pa.Array) -> pa.Array:
    """Decimals as numbers that are exact: int64 if their type has no fractions, else the float64 nearest to each."""
    if column.type.scale <= 0:
        with contextlib.suppress(pa.ArrowInvalid):  # of 2^63 or more
            return pc.cast(column, pa.int64())
    return pc.cast(pc.cast(column, pa.string()), pa.float64())  # by itself the cast to float64 rounds twice


def fits_float32(numbers: np.ndarray) -> bool:
    """Whether float32 keeps whole numbers exact, and no number overflows or becomes 0."""
    largest = max(float(numbers.max()), -float(numbers.min())) if numbers.size else 0.0
    if not largest < float(np.finfo(np.float32).max):
        return False
    kept = numbers.astype(np.float32)
    if np.count_nonzero(kept) < np.count_nonzero(numbers):
        return False
    whole = largest >= 1 << 24  # smaller ones are exact
    return not (whole and np.any((kept != numbers) & (numbers == np.rint(numbers))))


def tally(
    reader: Reader, columns: Sequence[str], others: Sequence[str], words: frozenset[str], labels: Sequence[str] = ()
) -> dict[str, Tally]:  # fmt: skip
    """The counts of a table's rows, by column. Raises DataError for a number that is not finite.

    others: columns that are read, and not counted; words: those that are read as text; labels: the columns of
    labels, of which only gaps are counted.
    """
    found = {name: Tally() for name in columns}
    row = 0
    for batch in reader.batches([*columns, *others], words):
        for name, column in zip(columns, batch.columns, strict=False):
            gaps = reader.gaps if name not in labels else reader.gaps[:1]
            _add(reader, found[name], name, coded(column, gaps), row, name in labels)
        row += batch.num_rows
    if row == 0:
        raise DataError(f"{reader.name} has no rows; check the input")
    return found


def together(name: str, parts: Iterable[dict[str, Tally]]) -> dict[str, Tally]:
    """The tally of a table of this name, from those of its parts, in order. Raises DataError."""
    found: dict[str, Tally] = {}
    for part in parts:
        for column, known in part.items():
            found.setdefault(column, Tally()).add(known)
            if len(found[column].words) > MOST_DISTINCT:
                raise too_many(name, column, found[column])
    if not found:
        raise DataError(f"{name} has no rows; check the input")
    return found


def _add(reader: Reader, into: Tally, name: str, column: pa.Array, row: int, label: bool) -> None:
    into.rows += len(column)
    kind = kind_of(column.type)
    if column.null_count:
        into.gaps += column.null_count
        if "gap" not in into.first:
            into.first["gap"] = reader.place(row + int(np.flatnonzero(column.is_null().to_numpy(False))[0]))
    if label:
        if kind == "words" and not reader.typed:
            _check_spelt(reader, column, row)
        return
    if kind and kind not in into.first and column.null_count < len(column):
        into.first[kind] = reader.place(row + int(np.flatnonzero(column.is_valid().to_numpy(False))[0]))
    if kind == "number":
        numbers = numbers_of(column)
        gaps = np.isnan(numbers)
        known = numbers[~gaps] if gaps.any() else numbers
        largest = float(np.abs(known).max(initial=0.0))
        if column.null_count == 0 and gaps.any():  # NaN of a typed table is a gap too
            into.gaps += int(gaps.sum())
            into.first.setdefault("gap", reader.place(row + int(np.flatnonzero(gaps)[0])))
        if largest == np.inf:
            where = reader.place(row + int(np.flatnonzero(np.isinf(numbers))[0]))
            raise DataError(
                f"{reader.name}, {where}, column {short(name)}: the value is infinite; replace it, or leave the "
                f"column out with `drop={short(name)}`"
            )
        into.numbers += known.size
        with np.errstate(over="ignore"):  # said if a mean is needed
            into.total += float(known.sum())
        into.largest = max(into.largest, largest)
        into.narrow = into.narrow and fits_float32(known)
    elif kind == "words":
        times = np.bincount(codes_of(column.indices) + 1, minlength=len(column.dictionary) + 1)[1:]
        for place, (word, count) in enumerate(zip(column.dictionary.to_pylist(), times.tolist(), strict=True)):
            into.words[word] += count
            if len(into.words) > MOST_DISTINCT:
                raise too_many(reader.name, name, into, reader.place(row + row_of(column, place)))


def _check_spelt(reader: Reader, labels: pa.Array, row: int) -> None:
    """DataError for a label that is a number as only Python spells it, one that is not finite, or too large.

    row: of the first label.
    """
    different = labels.dictionary
    with contextlib.suppress(pa.ArrowInvalid):
        if np.all(np.abs(numbers_of(different)) < EXACT):  # not NaN
            return
    for place, text in enumerate(different.to_pylist()):
        if is_number(text):
            where = f"{reader.name}, {reader.place(row + row_of(labels, place))}"
            if not is_plain(text):
                raise DataError(
                    f"{where}: the label {short(text)} is neither a number nor a name; write it differently"
                )
            check_label(float(text), text, where)


def first_word(reader: Reader, name: str, words: set[str]) -> tuple[str, str]:
    """(place, word) of the first row whose column of this name holds one of these words."""
    row = 0
    for batch in reader.batches([name], frozenset([name])):
        column = coded(batch.column(0))
        for place, word in enumerate(column.dictionary.to_pylist()):  # in the order of their first rows
            if word in words:
                return reader.place(row + row_of(column, place)), word
        row += batch.num_rows
    return "row 0", min(words)  # the file has changed meanwhile


def no_label(table: str, where: str, column: str = "", noun: str = "label") -> DataError:
    where += f", column {short(column)}" if column else ""  # of several
    return DataError(f"{table}, {where}: the {noun} is missing; drop the row or give it a {noun}")


def too_many(table: str, name: str, found: Tally, where: str = "") -> DataError:
    """where: the place of the first word that is too many; "" if that is not known."""
    name, words = name and short(name), f"{len(found.words)} different words"
    said = f": column {name} has {words} in its first {found.rows} rows,"
    if where:
        said = f", {where}, column {name}: {words} so far are"
    return DataError(
        f"{table}{said} too many for a category; leave it out with `drop={name}`, or count its words with `text={name}`"
    )
