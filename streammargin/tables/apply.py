"""Make rows of numbers of the batches of a table, as its schema says, with labels, weights, tasks and names of rows."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from streammargin.arrow import pa, pc
from streammargin.errors import DataError, UsageError
from streammargin.matching import Matcher, number_in, truth_as_number
from streammargin.sources.batch import Batch, Narrowing
from streammargin.sources.labels import mended
from streammargin.sources.names import all_of
from streammargin.sources.schema import CATEGORY, DATE, NUMBER, TEXT, TEXT_COLUMNS, Column, Schema
from streammargin.tables.asked import ZERO, Asked
from streammargin.tables.dates import is_time, parts_of, places_of
from streammargin.tables.header import is_number
from streammargin.tables.readers.base import Reader, words_of
from streammargin.tables.spellings import SHARE_SIGNS, SPELLINGS, read
from streammargin.tables.table import NamesBeside
from streammargin.tables.tally import coded, codes_of, no_label, numbers_of, row_of
from streammargin.tables.types import kind_of, of_decimals
from streammargin.wording import in_list, short, shown, warn


def beside_rows(batch: Batch, found: pa.RecordBatch, reader: Reader, beside: NamesBeside, first: int) -> Batch:
    """These rows with the columns beside them in the table. Raises DataError for a bad label, task or weight."""
    labels, tasks, weights = [found.column(name) for name in beside.labels], beside.tasks, beside.weight
    return batch._replace(
        labels=label_values(labels, reader, first) if labels else None,
        tasks=_values(found.column(tasks), reader, first, "value", tasks) if tasks else None,
        weights=_weights(found.column(weights), reader, first) if weights else None,
        ids=tuple(_ids(found.column(name)) for name in beside.id),
    )


def objects(words: pa.Array) -> np.ndarray:
    """Words (m,), as of `coded`, as objects: rows with one word share its text. A gap is None."""
    return np.array([*words.dictionary.to_pylist(), None], object)[codes_of(words.indices)]


def _ids(names: pa.Array) -> np.ndarray:
    """Names of rows (m,)."""
    names = coded(names)
    return objects(names) if kind_of(names.type) == "words" else names.to_numpy(zero_copy_only=False)


def label_values(labels: Sequence[pa.Array], reader: Reader, first: int, noun: str = "label") -> np.ndarray:
    """The labels (m,) of a batch: numbers, booleans or text as it is; of several columns numbers (m, columns).

    noun: what one column has. Raises DataError for a missing label.
    """
    if len(labels) == 1:
        return _values(labels[0], reader, first, noun)
    return np.stack([_numbers(column, reader, first) for column in labels], axis=1)


def _values(labels: pa.Array, reader: Reader, first: int, noun: str = "label", name: str = "") -> np.ndarray:
    """The values of a column; noun: what they are; name: of the column, if that does not say it."""
    labels = coded(labels, reader.gaps[:1], reader.typed)
    gap = np.flatnonzero(labels.is_null().to_numpy(zero_copy_only=False))
    if gap.size:
        raise no_label(reader.name, reader.place(first + int(gap[0])), mended(gap.size, noun), name, noun)
    kind = kind_of(labels.type)
    if kind == "words":
        bad = pc.index(pc.match_substring(labels.dictionary, "\0"), True).as_py()
        if bad >= 0:
            where = reader.place(first + row_of(labels, bad))
            where += f", column {short(name)}" if name else ""
            raise DataError(f"{reader.name}, {where}: the {noun} has a NUL character; remove it from the table")
        return objects(labels)
    if kind == "number":
        labels = of_decimals(labels) if pa.types.is_decimal(labels.type) else labels
        return np.asarray(labels.to_numpy(zero_copy_only=False))
    of = f" of {short(name)}" if name else ""
    raise DataError(f"{reader.name}: the {noun}s{of} are of type {labels.type}; {noun}s must be numbers or text")


def _numbers(labels: pa.Array, reader: Reader, first: int) -> np.ndarray:
    """One of several columns (m,) float64."""
    values = _values(labels, reader, first)
    if kind_of(labels.type) == "number":
        return values.astype(np.float64)
    bad = next((row for row, text in enumerate(values.tolist()) if not is_number(text)), None)
    if bad is not None:
        raise DataError(
            f"{reader.name}, {reader.place(first + bad)}: {shown(str(values[bad]))} is one of several "
            "labels, and not a number; name one column with `y`, or write numbers"
        )
    return np.array([float(text) for text in values.tolist()])


def _weights(weights: pa.Array, reader: Reader, first: int) -> np.ndarray:
    """Sample weights (m,) float64. Raises DataError for one that is no finite number or negative."""
    weights = coded(weights)
    words = kind_of(weights.type) != "number"
    each = map(is_number, weights.to_pylist()) if words else ()
    found = np.where([*each], 1.0, np.nan) if words else numbers_of(weights)
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))
    bad = np.zeros(1, np.intp) if words and not bad.size else bad  # text that spells numbers is none
    if bad.size:
        weight = weights[int(bad[0])].as_py()
        told = "missing" if weight is None else f"the text {shown(weight)}" if isinstance(weight, str) else weight
        hint = "store numbers" if words else "weights must be finite and not negative"
        raise DataError(f"{reader.name}, {reader.place(first + int(bad[0]))}: the sample weight is {told}; {hint}")
    return found


NUMBER_TYPES = frozenset({"float", "double", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})


def rows_of(
    reader: Reader, schema: Schema, asked: Asked, beside: NamesBeside, narrowing: Narrowing | None = None
) -> Iterator[Batch]:  # fmt: skip
    """The rows of a table in order. Raises DataError for what the schema does not know, and as `beside_rows`.

    Columns of the schema that the table lacks are 0 (`matched` says whether they may). Dense rows are of the schema's
    type, or that of `narrowing`, which checks their numbers.

    After the last row, a warning counts the words that training had not, if these count as none.
    """
    schema, there = schema.read, set(reader.columns)
    values = [column.name for column in schema.columns if column.name in there]
    words = frozenset(words_of(schema, reader)) & there
    extra = [name for name in dict.fromkeys(beside.given) if name not in values]
    if not reader.typed:  # labels and names of rows to the byte
        words |= beside.spelt & set(extra)
    if other := {column.spelling for column in schema.columns} - SPELLINGS:
        raise DataError(f"{reader.name}: the model reads a column by the spelling {shown(min(other))}, which this "
                        "version does not know; train it again")  # fmt: skip
    first = 0
    unknown: Counter[str] = Counter()
    matchers: dict[str, Matcher] = {}
    for found in reader.batches([*values, *extra], words):
        apply = _Apply(reader, schema, asked, first, unknown, matchers, narrowing)
        batch = apply.sparse(found) if schema.sparse else apply.dense(found)
        yield beside_rows(batch, found, reader, beside, first)
        first += found.num_rows
    if unknown:
        which = all_of([f"{in_list(name)} ({times})" for name, times in unknown.items()], str)
        warn(f"{reader.name}: unknown categories count as zeros: {which}")


def fill(X: np.ndarray, columns: Iterable[tuple[int, np.ndarray]]) -> None:
    """Put columns (m,) at these places of rows (m, d)."""
    with np.errstate(over="ignore"):  # said elsewhere
        for place, values in columns:
            X[:, place] = values


Entries = tuple[int, int, np.ndarray]  # the first column of a column of the table; place and values as of `_columns`


def _beside(entries: list[Entries], width: int, rows: int) -> sp.csr_matrix:
    """CSR rows (rows, width) of columns with at most one entry a row each."""
    if not entries:
        return sp.csr_matrix((rows, width))
    data, indices = [], []
    for start, place, values in entries:
        one = place < 0  # a 1 in the column that each row names
        data.append((values >= 0).astype(np.float64) if one else values)
        indices.append(start + values if one else np.full(len(values), start + place, np.int64))
    table, places = np.stack(data, axis=1), np.stack(indices, axis=1)
    kept = table != 0.0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sp.csr_matrix((table[kept], places[kept], indptr), shape=(len(table), width))


def _found(column: pa.Array, words: Sequence[str]) -> np.ndarray:
    """The place of the word of each row (m,), as of `coded`, among these; -1 for a gap, and for one that is none."""
    if kind_of(column.type) != "words":  # gaps alone
        return np.full(len(column), -1)
    texts = column.dictionary.cast(pa.large_string())
    found = pc.index_in(texts, value_set=pa.array(words, pa.large_string()))
    return np.append(codes_of(found), -1)[codes_of(column.indices)]


def _plain(column: pa.Array) -> tuple[pa.Array, int]:
    """`read` of words that are numbers as programs write them, true or false."""
    known = [number_in(truth_as_number(word)) for word in column.dictionary.to_pylist()]
    found = pa.array([None if number is None else float(number) for number in known], pa.float64()).take(column.indices)
    return found, int(pc.index(pc.and_(found.is_null(), column.is_valid()), True).as_py())


class _Apply(NamedTuple):
    """The schema on one batch, whose first row has this number; adds to `unknown` the words that count as none."""

    reader: Reader
    schema: Schema
    asked: Asked
    first: int
    unknown: Counter[str]
    matchers: dict[str, Matcher]  # by column: those that were needed
    narrowing: Narrowing | None

    def dense(self, found: pa.RecordBatch) -> Batch:
        """Rows X (m, d)."""
        numbers: list[tuple[int, np.ndarray]] = []
        words: list[tuple[int, np.ndarray]] = []
        for column, start, given in self._there(found):
            for place, values in self._columns(column, given):
                (words if place < 0 else numbers).append((start + max(0, place), values))
        dtype = np.dtype(self.schema.dtype) if self.narrowing is None else self.narrowing.dtype
        X = np.zeros((found.num_rows, self.schema.features), dtype)
        fill(X, numbers)
        for start, places in words:
            rows = np.flatnonzero(places >= 0)
            X[rows, start + places[rows]] = 1.0
        return Batch(X, None, None, None, None, None)

    def sparse(self, found: pa.RecordBatch) -> Batch:
        """CSR rows: at most one entry for each number, word and gap, and those of texts."""
        parts: list[sp.csr_matrix] = []
        near: list[Entries] = []  # of columns side by side
        first = 0
        for column, start, given in self._there(found):
            if column.kind == TEXT:
                if start > first:
                    parts.append(_beside(near, start - first, found.num_rows))
                parts.append(counts_of(self._values(column, given), column.ngrams))
                near, first = [], start + column.width
                continue
            near += [(start - first, place, entries) for place, entries in self._columns(column, given)]
        if self.schema.features > first:
            parts.append(_beside(near, self.schema.features - first, found.num_rows))
        X = parts[0] if len(parts) == 1 else sp.hstack(parts, format="csr")
        return Batch(None, X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), None, None)

    def _there(self, found: pa.RecordBatch) -> Iterator[tuple[Column, int, pa.Array]]:
        """The columns of the schema that a batch begins with, the first column that each becomes, and its values."""
        there = set(found.schema.names)
        starts = zip(self.schema.columns, self.schema.starts.tolist(), strict=False)
        known = ((column, start) for column, start in starts if column.name in there)
        return ((column, start, given) for (column, start), given in zip(known, found.columns, strict=False))

    def _known(self, column: Column, given: pa.Array) -> np.ndarray | None:
        """The numbers (m,) of a column of finite numbers, as most are in a wide table; None for another column."""
        if column.kind != NUMBER or column.spelling or column.indicator:
            return None
        if str(given.type) not in NUMBER_TYPES or given.null_count:
            return None
        numbers: np.ndarray = given.to_numpy().astype(np.float64, copy=False)
        return numbers if np.isfinite(numbers).all() else None

    def _values(self, column: Column, given: pa.Array) -> pa.Array:
        """A column of the table, null for gaps; what a training had as a word is none, as "?" of a typed table."""
        values = coded(given, [gap for gap in self.reader.gaps if gap not in column.words], trimmed=True)
        if column.kind == CATEGORY and pa.types.is_decimal(values.type):
            values = of_decimals(values)
        if column.kind == CATEGORY and pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), None, values)
        return values

    def _columns(self, column: Column, given: pa.Array) -> Iterator[tuple[int, np.ndarray]]:
        """(place, numbers (m,)) of the columns that a column becomes; (-1, places (m,)) if each row has one 1 there.

        In the latter a place of -1 means that no word counts.
        """
        known = self._known(column, given)
        if known is not None:
            if self.narrowing is not None:
                self.narrowing.check_values(known)
            yield 0, known
            return
        values = self._values(column, given)
        gaps = values.is_null().to_numpy(zero_copy_only=False)
        if column.kind == NUMBER:
            numbers = self._numbers(column, values)
            gaps = np.isnan(numbers)
        if gaps.any() and column.fill is None:
            raise self._gap(column, int(np.flatnonzero(gaps)[0]))
        if column.kind == NUMBER:
            numbers = np.where(gaps, column.fill or 0.0, numbers) if gaps.any() else numbers
            if self.narrowing is not None:
                self.narrowing.check_values(numbers)
            yield 0, numbers
        elif column.kind == CATEGORY:
            yield -1, self._places(column, values, gaps)
        elif column.kind == DATE:
            yield from self._date(column, values, gaps)
        if column.indicator:
            yield column.width - 1, gaps.astype(np.float64)

    def _numbers(self, column: Column, values: pa.Array) -> np.ndarray:
        kind = kind_of(values.type)
        if kind == "words":
            values, kind = self._read(column, values, column.spelling), "number"
        elif kind == "number" and column.spelling.partition(" ")[2] in SHARE_SIGNS:  # 0.12 may be 12% or 0.12%
            raise DataError(
                f"{self._where(column, 0)}: numbers without the sign that they had in training "
                f"({column.spelling}); write it behind each, in a column of text"
            )
        if kind not in ("number", ""):
            raise DataError(f"{self._where(column, 0)}: values of type {values.type}, but the training had numbers")
        numbers = numbers_of(values)
        infinite = np.flatnonzero(np.isinf(numbers))
        if infinite.size:
            raise DataError(f"{self._where(column, int(infinite[0]))}: the value is infinite; replace it")
        return numbers

    def _read(self, column: Column, words: pa.Array, spelling: str) -> pa.Array:
        """Words as numbers or dates. Raises DataError for one that does not fit the spelling of the training."""
        found, bad = read(words, spelling) if spelling else _plain(words)
        if bad >= 0:
            what = "a date" if column.kind == DATE else "a number"
            alike = f" ({spelling})" if column.spelling else ""
            word = shown(words[bad].as_py())
            raise DataError(
                f"{self._where(column, bad)}: {word} is not {what}, as it was in training{alike}; replace it, or "
                "drop the row"
            )
        return found

    def _date(self, column: Column, values: pa.Array, gaps: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """The columns that a date becomes, as of `_columns`."""
        if kind_of(values.type) == "words":
            values = self._read(column, values, column.spelling)
        fits = kind_of(values.type) == "" or (
            kind_of(values.type) == "date" and is_time(values.type) != bool(column.first)
        )
        if not fits:
            what = "dates" if column.first else "times of the day"
            raise DataError(f"{self._where(column, 0)}: values of type {values.type}, but the training had {what}")
        known = np.flatnonzero(~gaps)
        parts = parts_of(values.drop_null()) if known.size else None
        if column.first:
            start, fill = int(np.datetime64(column.first, "D").astype(np.int64)), column.fill or 0.0
            numbers = np.tile([[column.year], [fill]], len(values))
            if parts is not None and parts.years is not None and parts.days is not None:
                numbers[:, known] = parts.years - column.first_year, parts.days - start
            yield from enumerate(numbers)
        for found in () if parts is None else places_of(parts, column.words):
            own = np.full(len(values), -1)
            own[known] = np.where(found >= 0, found + column.numbers, -1)
            yield -1, own

    def _places(self, column: Column, values: pa.Array, gaps: np.ndarray) -> np.ndarray:
        """The place of the word of each row among the columns of a category; -1 for none."""
        if kind_of(values.type) == "number" or (column.numeric and column.name not in self.reader.numeric):
            places = self._matched(column, values)
        else:
            places = _found(values, column.words)
        if column.other:
            places[(places < 0) & ~gaps] = len(column.words)
        unknown = np.flatnonzero((places < 0) & ~gaps)
        if unknown.size and self.asked.unknown != ZERO:
            word = shown(str(values[int(unknown[0])].as_py()))
            raise DataError(
                f"{self._where(column, int(unknown[0]))}: unknown category {word}; replace it, or let it count as "
                "zeros with `unknown=zero`"
            )
        if unknown.size:
            self.unknown[column.name] += unknown.size
        return places

    def _matched(self, column: Column, values: pa.Array) -> np.ndarray:
        """`_found` if one of the words and the values are numbers, and the other are text: they match one to one."""
        if column.name not in self.matchers:
            words = [number_in(word) for word in column.words] if column.numeric else column.words
            name = f"{self.reader.name}, column {short(column.name)}"
            self.matchers[column.name] = Matcher(words, name, what=("category", "values"))
        values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        found = map(self.matchers[column.name].find, values.dictionary.to_pylist())
        return np.array([*(-1 if place is None else place for place in found), -1])[codes_of(values.indices)]

    def _where(self, column: Column, row: int) -> str:
        return f"{self.reader.name}, {self.reader.place(self.first + row)}, column {short(column.name)}"

    def _gap(self, column: Column, row: int) -> DataError:
        return DataError(
            f"{self._where(column, row)}: the value is missing, and no training row lacked it; drop the row, or train "
            "again with `missing=mean`"
        )


@functools.cache
def _vectorizer(ngrams: int) -> Any:
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ImportError:
        raise UsageError(
            "columns of text are counted by scikit-learn, which is not installed; "
            "install it with: pip install 'streammargin[sklearn]'"
        ) from None
    return HashingVectorizer(n_features=TEXT_COLUMNS, ngram_range=(1, ngrams), alternate_sign=False, norm=None)


def counts_of(texts: pa.Array, ngrams: int) -> Any:
    """Rows (m, TEXT_COLUMNS), CSR: 1 + log(count) of each word, or sequence of up to `ngrams`; of length 1.

    Words are sequences of two or more letters or digits, in lower case; a gap has none.
    """
    words = texts.dictionary.to_pylist() if pa.types.is_dictionary(texts.type) else []  # else gaps alone
    X = _vectorizer(ngrams).transform([*words, ""])
    X.data = 1.0 + np.log(X.data)
    lengths = np.sqrt(np.add.reduceat(np.append(X.data**2, 0.0), X.indptr[:-1]) * (np.diff(X.indptr) > 0))
    X.data /= np.repeat(np.where(lengths > 0.0, lengths, 1.0), np.diff(X.indptr))
    X.sort_indices()
    return X[codes_of(texts.indices) if words else np.full(len(texts), -1)]  # the last row is of a gap


def words_in(texts: pa.Array, ngrams: int) -> tuple[list[str], list[int], np.ndarray]:
    """(The different words and sequences of texts, as of `coded`; how often they occur; their columns)."""
    split, found = _vectorizer(ngrams).build_analyzer(), Counter[str]()
    from sklearn.feature_extraction import FeatureHasher

    if pa.types.is_dictionary(texts.type):  # else gaps alone
        times = np.bincount(codes_of(texts.indices) + 1, minlength=1)[1:].tolist()
        for text, rows in zip(texts.dictionary.to_pylist(), times, strict=True):
            for word in split(text):
                found[word] += rows
    hashed = FeatureHasher(TEXT_COLUMNS, input_type="string", alternate_sign=False).transform([one] for one in found)
    return list(found), list(found.values()), hashed.indices  # one entry a row
