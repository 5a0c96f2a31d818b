"""LIBSVM's (svmlight's) text format: `label index:value ...`, indices from 1, increasing; # starts a comment."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterator

import numpy as np

from streammargin.errors import DataError
from streammargin.matching import EXACT_BELOW, is_plain, strict_number
from streammargin.sources.batch import Batch, Ordered
from streammargin.tables.file_format import SVMLIGHT, FileFormat
from streammargin.tables.matrices.base import How, beside
from streammargin.tables.textfile import Text, check_label, plain_lines
from streammargin.wording import short, shown

_QID = re.compile(rb"^([ \t]*[^ \t\n]+[ \t]+)qid:\d+(?=[ \t\n])", re.MULTILINE)  # of rankings, left out
_ROW = re.compile(rb"^[ \t]*[^ \t\n#]+(?:[ \t]+(?:qid|\d+):[^ \t\n]+)*[ \t]*(?:#|$)")
_COMMENT = re.compile(rb"#[^\n]*")
_COLON, _NEWLINE = b":\n"


def sniff(start: bytes) -> bool:
    """Whether the first rows look like svmlight text, and one has a value."""
    lines = [line for line in start.split(b"\n", 20)[:20] if line.split(b"#")[0].strip()]
    lines = lines[:-1] or lines
    return any(re.search(rb"[ \t]\d+:", line) for line in lines) and all(map(_ROW.match, lines))


def read(text: Text, how: How) -> Ordered:
    """The rows with their labels, or those of another file."""
    batches = beside(rows_of(text, how.zero_based, how.features), text.name, how)
    return Ordered(batches, True, how.features, np.dtype(np.float32))


def rows_of(source: Text, zero_based: bool, features: int | None) -> Iterator[Batch]:
    """Sparse batches (float64 values, indices from 0) with labels. Raises DataError naming the line."""
    for first_line, text in source.pieces():
        if b"#" in text:
            text = _COMMENT.sub(b"", text)
        text = plain_lines(text, source.name, first_line)
        if b"qid:" in text:
            text = _QID.sub(rb"\1", text)
        batch = _parse(text, zero_based, features)
        if batch is None:  # a line does not parse; find it line by line
            batch = _parse_slowly(source.name, text, first_line, zero_based, features)
        if batch.rows:
            yield batch


def _parse(text: bytes, zero_based: bool, features: int | None) -> Batch | None:
    """The rows of whole lines at array speed, or None if any line needs a closer look."""
    codes = np.frombuffer(text, np.uint8)
    white = codes <= 32  # `plain_lines` allows spaces, tabs and newlines only
    colon = codes == _COLON
    newline = np.flatnonzero(codes == _NEWLINE)
    # a token starts where white space ends; its line is the number of newlines before it
    begins = ~white & np.append(True, white[:-1])
    starts = np.flatnonzero(begins)
    if not len(starts):
        return Batch(None, np.empty(0), np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0), None)
    lines = np.searchsorted(newline, starts)
    is_label = np.append(True, lines[1:] != lines[:-1])
    # every token but a line's first has one colon inside
    token_of_colon = np.searchsorted(starts, np.flatnonzero(colon), side="right") - 1
    colons = np.bincount(token_of_colon, minlength=len(starts)) if len(token_of_colon) else np.zeros(len(starts))
    if not np.array_equal(colons, np.where(is_label, 0, 1)):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # unreadable text shows in the count below
        try:
            numbers = np.fromstring(text.replace(b":", b" ").decode("ascii"), sep=" ")
        except (ValueError, UnicodeDecodeError):
            return None
    entries = len(starts) - int(is_label.sum())
    if len(numbers) != len(starts) + entries:
        return None
    # every part of a token, from its start or its colon to the next, in the order of the numbers
    parts = np.flatnonzero(begins | colon)
    digits = np.logical_and.reduceat((codes >= 48) & (codes <= 57), parts)  # never 1e1:1, never 1.0:1
    # the position of each label among all numbers: a label is one number, an entry two
    place = np.arange(len(starts)) + np.cumsum(np.append(0, ~is_label[:-1]))
    labels = numbers[place[is_label]]
    index, values = numbers[place[~is_label]], numbers[place[~is_label] + 1]
    if not digits[place[~is_label]].all():
        return None
    rows = np.flatnonzero(is_label)
    indptr = np.append(rows - np.arange(len(rows)), entries).astype(np.int64)
    if not (np.isfinite(values).all() and np.all(np.abs(labels) < EXACT_BELOW)):
        return None
    columns = index - (0 if zero_based else 1)
    limit = 2**31 - 1 if features is None else features
    if entries and (columns.min() < 0 or columns.max() >= limit or np.any(columns != np.trunc(columns))):
        return None
    columns = columns.astype(np.int64)
    rising = np.diff(columns) > 0
    rising[indptr[1:-1][(indptr[1:-1] > 0) & (indptr[1:-1] < entries)] - 1] = True
    if not rising.all():
        row = np.repeat(np.arange(len(rows)), np.diff(indptr))
        order = np.lexsort((columns, row))
        columns, values = columns[order], values[order]
        if np.any((np.diff(columns) == 0) & (np.diff(row) == 0)):
            return None
    return Batch(None, values, columns, indptr, labels, None)


def _parse_slowly(path: str, text: bytes, first_line: int, zero_based: bool, features: int | None) -> Batch:
    """Like `_parse`, one line after the other. Raises DataError at the first line that does not parse."""
    labels: list[float] = []
    lengths: list[int] = []
    entries: list[tuple[int, float]] = []
    for number, raw in enumerate(text.split(b"\n"), first_line):
        tokens = [token.decode("utf-8", "replace") for token in raw.split()]
        if not tokens:
            continue
        where = f"{path}, line {number}"
        try:
            label = strict_number(tokens[0])
        except ValueError:
            raise DataError(
                f"{where}: the label {shown(tokens[0])} is not a number; write classes as numbers"
            ) from None
        check_label(label, tokens[0], where)
        row = sorted(_entry(token, where, zero_based, features) for token in tokens[1:])
        for (one, _), (other, _) in itertools.pairwise(row):
            if one == other:
                index = one if zero_based else one + 1
                raise DataError(f"{where}: the index {index} occurs twice; sum or drop one of them")
        labels.append(label)
        lengths.append(len(row))
        entries += row
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    columns = np.array([c for c, _ in entries], np.int64)
    return Batch(None, np.array([v for _, v in entries]), columns, indptr, np.array(labels), None)


def _entry(token: str, where: str, zero_based: bool, features: int | None) -> tuple[int, float]:
    left, colon, right = token.partition(":")
    try:
        if not colon or not is_plain(left):
            raise ValueError
        index, value = int(left), strict_number(right)
    except ValueError:
        raise DataError(f"{where}: {shown(token)} is not index:value") from None
    if not np.isfinite(value):
        raise DataError(f"{where}: the value of index {index} is {short(right)}; drop the row or replace the value")
    if index == 0 and not zero_based:
        raise DataError(f"{where}: the index 0, but indices count from 1; if these count from 0, use `zero_based=True`")
    column = index if zero_based else index - 1
    if column < 0 or column >= 2**31 - 1:
        raise DataError(f"{where}: the index {index} is out of range; at most {2**31 - 1} columns are supported")
    if features is not None and column >= features:
        raise DataError(f"{where}: the index {index} exceeds `features={features}`")
    return column, value


ENDINGS = (".svm", ".svmlight", ".libsvm")
FORMATS = (FileFormat(SVMLIGHT, read, text=True, sniff=sniff, suffixes=ENDINGS, called="svmlight"),)
