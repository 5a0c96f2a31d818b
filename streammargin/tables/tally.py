"""Count what the columns of a table hold: numbers, words, gaps."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from streammargin.arrow import pa, pc
from streammargin.errors import DataError
from streammargin.matching import EXACT_BELOW, is_plain
from streammargin.tables.dates import Dates, like_dates
from streammargin.tables.header import is_number
from streammargin.tables.readers.base import BLANKS, Reader
from streammargin.tables.spellings import ALL_SPELLINGS, HELPERS, WHOLE, fits, fitting, read
from streammargin.tables.textfile import check_label
from streammargin.tables.types import kind_of
from streammargin.wording import how_far, joined, short, shown

EXACT_NARROW = 1 << 24  # float32 has all whole numbers up to this
MOST_DISTINCT = 1 << 18  # words of a column that are counted; with more it is no category, unless that is asked for
MOST_LETTERS = 1 << 25  # of these words together
MOST_SPELT = 1 << 12  # of one whose words are all numbers or dates, so that they need not be counted


@dataclass
class Rising:
    """Whether numbers are whole, each larger than the one before it, as ids and times are; low, high: the ends."""

    holds: bool = True
    low: float = math.inf
    high: float = -math.inf

    def add(self, numbers: np.ndarray) -> None:
        """Add the next numbers (m,)."""
        if not self.holds or not numbers.size:
            return
        low, high = float(numbers[0]), float(numbers[-1])
        self.holds = low > self.high and bool(
            np.all(numbers[1:] > numbers[:-1]) and np.all(numbers == np.rint(numbers))
        )
        self.low, self.high = min(self.low, low), high

    def join(self, later: Rising) -> None:
        """Add what is known of the numbers behind these."""
        self.holds = self.holds and later.holds and later.low > self.high
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)


@dataclass
class Tallied:
    """The counts of a column: rows, gaps, the sum of its numbers, and how often each of its words occurs.

    `largest`   the largest |x|.
    `narrow`    float32 holds its numbers well.
    `dated`     all of its numbers read as dates, as 20240131.
    `rising`    whether its numbers are whole, each larger than the one before.
    `category`  its type says that its words are those of a category.
    `forms`     the spellings of numbers and dates that fit all of its words.
    `many`      the words are more than those counted.
    `full`      words that came after MOST_DISTINCT others, or MOST_LETTERS of others, are not counted.
    `letters`   those of the words that are.
    `first`     the place of the first gap, of the first value of each kind, and of the first word that is not counted.
    """

    rows: int = 0
    gaps: int = 0
    numbers: int = 0
    total: float = 0.0
    largest: float = 0.0
    narrow: bool = True
    dated: bool = True
    rising: Rising = field(default_factory=Rising)
    words: Counter[str] = field(default_factory=Counter)
    category: bool = False
    forms: frozenset[str] = ALL_SPELLINGS
    many: bool = False
    full: bool = False
    letters: int = 0
    dates: Dates = field(default_factory=Dates)
    first: dict[str, str] = field(default_factory=dict)

    @property
    def wide(self) -> bool:
        """Whether float32 would change values of it, some of them large, as far as is known."""
        return not self.narrow and EXACT_NARROW <= self.largest < float(np.finfo(np.float32).max)

    def add(self, later: Tallied) -> None:
        """Add what is known of the rows behind these."""
        self.rows, self.gaps = self.rows + later.rows, self.gaps + later.gaps
        self.numbers += later.numbers
        with np.errstate(over="ignore"):  # said if a mean is needed
            self.total += later.total
        self.largest, self.narrow = max(self.largest, later.largest), self.narrow and later.narrow
        self.dated = self.dated and later.dated
        self.rising.join(later.rising)
        self.full = self.full or later.full
        for word, times in later.words.items():
            self.count(word, times)
        self.category = self.category or later.category
        self.forms, self.many = self.forms & later.forms, self.many or later.many
        self.dates += later.dates
        self.first = {**later.first, **self.first}

    def count(self, word: str, times: int) -> bool:
        """Count a word, and return whether that was done: not if there are too many others."""
        if word not in self.words:
            if len(self.words) >= MOST_DISTINCT or self.letters + len(word) > MOST_LETTERS:
                self.full = True
                return False
            self.letters += len(word)
        self.words[word] += times
        return True


class Counting(NamedTuple):
    """What is counted of a table, by the names of columns.

    columns: those that are counted; others: those that are read, and not counted; words: those that are read as text;
    labels: the columns of labels, of which only gaps are counted; spelt: the spelling of numbers and dates in text, by
    column; "" if a column holds words alone, whatever they look like.
    """

    columns: Sequence[str]
    others: Sequence[str]
    words: frozenset[str]
    labels: Sequence[str] = ()
    spelt: Mapping[str, str] = {}


def coded(column: pa.Array, gaps: Sequence[str] = (), trimmed: bool = False) -> pa.Array:
    """Words as a dictionary of those that occur, in the order of their first rows; null for those of `gaps`.

    A long word that many rows hold takes its bytes once. A dictionary of numbers or dates becomes these. trimmed:
    whether blanks around words are taken off; readers of text leave those that are in quotes.
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
    if trimmed and not (bare := pc.utf8_trim(texts, BLANKS)).equals(texts):
        again = bare.dictionary_encode()  # words that differ by blanks are one
        texts, codes = again.dictionary, again.indices.take(codes)
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


def fits_float32(numbers: np.ndarray) -> bool:
    """Whether float32 keeps whole numbers exact, and no number overflows or becomes 0."""
    largest = max(float(numbers.max()), -float(numbers.min())) if numbers.size else 0.0
    if not largest < float(np.finfo(np.float32).max):
        return False
    kept = numbers.astype(np.float32)
    if np.count_nonzero(kept) < np.count_nonzero(numbers):
        return False
    whole = largest >= EXACT_NARROW
    return not (whole and np.any((kept != numbers) & (numbers == np.rint(numbers))))


def tally(reader: Reader, of: Counting) -> dict[str, Tallied]:
    """The counts of a table's rows, by column. Raises DataError for a number that is not finite."""
    found = {name: Tallied(category=of.spelt.get(name) == "" or isinstance(reader.types.get(name), pa.DictionaryType))
             for name in of.columns}  # fmt: skip
    row = 0
    for batch in reader.batches([*of.columns, *of.others], of.words):
        for name, column in zip(of.columns, batch.columns, strict=False):
            label = name in of.labels
            column = coded(column, reader.gaps[:1] if label else reader.gaps, reader.typed or not label)
            if of.spelt.get(name) and kind_of(column.type) == "words":
                column = _read(reader, name, column, of.spelt[name], row)
            _add(reader, found[name], name, column, row, label)
        row += batch.num_rows
        how_far(f"{row:,} rows read")
    if row == 0:
        raise DataError(f"{reader.name} has no rows; check the input")
    return found


def together(name: str, parts: Iterable[dict[str, Tallied]]) -> dict[str, Tallied]:
    """The tally of a table of this name, from those of its parts, in order. Raises DataError."""
    found: dict[str, Tallied] = {}
    for part in parts:
        for column, known in part.items():
            found.setdefault(column, Tallied()).add(known)
            if found[column].many and not found[column].forms:
                raise several_ways(f"{name}, column {short(column)}", "", column)
            found[column].many = found[column].many or _spelt(found[column], True)
    if not found:
        raise DataError(f"{name} has no rows; check the input")
    return found


def _add(reader: Reader, into: Tallied, name: str, column: pa.Array, row: int, label: bool) -> None:
    """Add the values of a column, as of `coded`, whose first row has this number."""
    kind = kind_of(column.type)
    numbers = numbers_of(column) if kind == "number" and not label else None
    missing = np.asarray(column.is_null()) if numbers is None else np.isnan(numbers)  # NaN of a typed table is a gap
    into.rows, into.gaps = into.rows + len(column), into.gaps + int(np.count_nonzero(missing))
    if "gap" not in into.first and missing.any():
        into.first["gap"] = reader.place(row + int(np.argmax(missing)))
    if label:
        if kind == "words" and not reader.typed:
            _check_spelt(reader, column, row)
        return
    if kind and kind not in into.first and not missing.all():
        into.first[kind] = reader.place(row + int(np.argmin(missing)))
    if numbers is not None:
        _add_numbers(into, numbers[~missing] if missing.any() else numbers)
        if into.largest == np.inf:
            where = reader.place(row + int(np.argmax(np.isinf(numbers))))
            raise DataError(
                f"{reader.name}, {where}, column {short(name)}: the value is infinite; replace it, or leave the "
                f"column out with `drop={joined([name])}`"
            )
    elif kind == "words":
        _count(reader, into, name, column, row)
    elif kind == "date" and not missing.all():
        into.dates += Dates.of(column.drop_null())


def _add_numbers(into: Tallied, known: np.ndarray) -> None:
    into.numbers += known.size
    with np.errstate(over="ignore", invalid="ignore"):  # said if a mean is needed
        into.total += float(known.sum())
    into.largest = max(into.largest, float(np.abs(known).max(initial=0.0)))
    into.narrow = into.narrow and fits_float32(known)
    into.dated = into.dated and (known.size == 0 or like_dates(known))
    into.rising.add(known)


def _count(reader: Reader, into: Tallied, name: str, column: pa.Array, row: int) -> None:
    """Add words, as of `coded`, to a tally; those that are all numbers or dates are not counted if they are many."""
    words = column.dictionary  # in the order of their first rows
    before, into.forms = into.forms, frozenset() if into.category else fitting(into.forms, words)
    if into.many and not into.forms:
        odd = int(np.argmin(fits(words, min(before - HELPERS))))
        where = f"{reader.name}, {reader.place(row + row_of(column, odd))}, column {short(name)}"
        raise several_ways(where, words[odd].as_py(), name)
    if into.many:
        return
    times = np.bincount(codes_of(column.indices) + 1, minlength=len(words) + 1)[1:]
    for place, (word, count) in enumerate(zip(words.to_pylist(), times.tolist(), strict=True)):
        if not into.count(word, count):
            into.first.setdefault("more", reader.place(row + row_of(column, place)))
        if _spelt(into, reader.typed):
            into.many = True
            return


def _spelt(found: Tallied, typed: bool) -> bool:
    """Whether the words of a tally are all numbers or dates, and so many that they need not be counted."""
    if len(found.words) <= MOST_SPELT or not found.forms:
        return False
    return not (typed and WHOLE in found.forms)  # text of digits in a typed table stays text


def _read(reader: Reader, name: str, column: pa.Array, spelling: str, row: int) -> pa.Array:
    """A column of words as numbers or dates. Raises DataError for one that fits the spelling, and is none."""
    found, bad = read(column, spelling)
    if bad >= 0:
        raise DataError(
            f"{reader.name}, {reader.place(row + bad)}, column {short(name)}: {shown(column[bad].as_py())} is not "
            f"a date; correct it, or leave the column out with `drop={joined([name])}`"
        )
    return found


def _check_spelt(reader: Reader, labels: pa.Array, row: int) -> None:
    """DataError for a label that is a number as only Python spells it, one that is not finite, or too large.

    row: of the first label.
    """
    different = labels.dictionary
    with contextlib.suppress(pa.ArrowInvalid):
        if np.all(np.abs(numbers_of(different)) < EXACT_BELOW):  # not NaN
            return
    for place, text in enumerate(different.to_pylist()):
        if is_number(text):
            where = f"{reader.name}, {reader.place(row + row_of(labels, place))}"
            if not is_plain(text):
                raise DataError(
                    f"{where}: the label {short(text)} is neither a number nor a name; write it differently"
                )
            check_label(float(text), text, where)


def first_word(reader: Reader, name: str, fits: Callable[[str], bool]) -> tuple[str, str]:
    """(place, word) of the first row whose column of this name holds such a word."""
    row = 0
    for batch in reader.batches([name], frozenset([name])):
        column = coded(batch.column(0), trimmed=True)
        for place, word in enumerate(column.dictionary.to_pylist()):  # in the order of their first rows
            if fits(word):
                return reader.place(row + row_of(column, place)), word
        row += batch.num_rows
    return "row 0", ""  # the file has changed meanwhile


def no_label(table: str, where: str, end: str, column: str = "", noun: str = "label") -> DataError:
    """where: the first row without one; end: of the message, as of `mended`."""
    where += f", column {short(column)}" if column else ""  # of several
    return DataError(f"{table}, {where}: the {noun} is missing{end}")


def several_ways(where: str, word: str, name: str) -> DataError:
    """word: the first that is written otherwise than those before it; "" if it is not known."""
    what = f"{shown(word)} is not" if word else "not all of its numbers or dates are"
    return DataError(
        f"{where}: {what} written like the others; write all alike, or leave the column out with "
        f"`drop={joined([name])}`"
    )
