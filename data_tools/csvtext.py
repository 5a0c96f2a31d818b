"""CSV: numbers separated by commas or another character, with or without a label column and a header line."""

from __future__ import annotations

import csv
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streammargin.data_tools.formats import Asked, Found
from streammargin.errors import DataError, UsageError
from streammargin.matching import EXACT, is_plain, strict_number
from streammargin.sources.batch import Batch
from streammargin.sources.label_column import LabelColumn
from streammargin.tables.header import Columns, Wanted, columns_of, is_number, truth
from streammargin.tables.textfile import SHOWN, Text, check_label, decoded, plain_lines

TEXT, SUFFIXES, OPTIONS = True, (".csv",), ("label_column", "label", "separator")
_SEPARATORS = {"tab": "\t", "\\t": "\t"}  # a tab is hard to type in a shell
_BLANKS = " \t"


def sniff(start: bytes) -> bool:
    """Whether the first line looks like fields; svmlight's has colons."""
    lines = (line.split(b"#")[0].strip() for line in start.splitlines())
    line = next(filter(None, lines), b"")
    return b":" not in line and any(mark in line for mark in (b",", b";", b"\t"))


def read(text: Text, asked: Asked) -> Found:
    """The rows of a table (float64) with their labels, if any; columns in the file's order, or in the model's.

    Raises UsageError if the label is ambiguous, DataError naming line and column.
    """
    separator = _separator(asked.separator)
    pieces = _begun(text)
    number, raw = next(pieces)
    first, second = (_decode(raw, text.name, number).split("\n", 2) + [""])[:2]
    layout = _Layout(text.name, separator, _BLANKS.replace(separator, ""))
    fields = layout.fields(first, f"{text.name}, line 1")
    if not fields:
        raise DataError(f"{text.name}, line 1 is blank; begin the table with a header or a row")
    if len(fields) < 2:
        _check_one_column(first, text.name, asked)
    wanted = Wanted(asked.label_column, asked.label, asked.like)
    columns = columns_of(text.name, fields, layout.fields(second, f"{text.name}, line 2"), wanted)
    if columns.header is not None:
        number, raw = number + 1, raw[raw.index(b"\n") + 1 :]
    batches = _batches(itertools.chain([(number, raw)], pieces), layout, columns)
    label = None if columns.label is None else LabelColumn(columns.label_name, spelt=True)
    return Found(batches, False, len(columns.values), np.dtype(np.float32), columns.names, label)


def _separator(given: str | None) -> str:
    """The one character between fields."""
    found = "," if given is None else _SEPARATORS.get(given, given)
    if (
        len(found) != 1
        or not ((found.isascii() and found.isprintable()) or found == "\t")
        or found.isalnum()
        or found in '+-."'
    ):
        raise UsageError(
            f"`separator` must be one character that is no letter, digit, quote, sign or point, or tab, not {given!r}"
        )
    return found


def _begun(text: Text) -> Iterator[tuple[int, bytes]]:
    """The pieces of a text; the first is extended to two lines if the text has two, as a line may fill a piece."""
    pieces = text.pieces()
    number, raw = next(pieces)
    while raw.count(b"\n") < 2 and (more := next(pieces, None)) is not None:
        raw += more[1]
    yield number, raw
    yield from pieces


def _batches(pieces: Iterator[tuple[int, bytes]], layout: _Layout, columns: Columns) -> Iterator[Batch]:
    for number, raw in pieces:
        text = _decode(raw, layout.path, number)
        batch = _parse(text, layout, columns) or _parse_slowly(text, number, layout, columns)
        if batch.rows:
            yield batch


def _decode(raw: bytes, path: str, line: int) -> str:
    return decoded(plain_lines(raw, path, line), path, line)


@dataclass(frozen=True)
class _Layout:
    """How to split the lines of a table into fields. blanks: characters to strip from a field."""

    path: str
    separator: str
    blanks: str

    def fields(self, line: str, where: str) -> list[str]:
        """The fields of a line. Raises DataError for quotes that do not pair."""
        skip = self.separator != " "  # blanks before a quote, but never an empty field
        line = line.rstrip(self.blanks)
        try:
            return next(csv.reader([line], delimiter=self.separator, skipinitialspace=skip, strict=True), [])
        except csv.Error as error:
            raise DataError(f"{where}: {error}; is a quote missing, or a newline inside a field?") from None


def _check_one_column(line: str, path: str, asked: Asked) -> None:
    """Raises DataError if the first line has one column only: the label is missing, or the separator differs."""
    for other, name in () if asked.separator is not None else (("\t", "tabs"), (";", "semicolons"), ("|", "bars")):
        if len(next(csv.reader([line], delimiter=other), [])) > 1:
            word = "tab" if other == "\t" else other
            raise DataError(f"{path}, line 1: fields are separated by {name}; use `separator={word}`")
    if asked.label:
        raise DataError(
            f"{path}, line 1: one column only, but rows need a label and values; name the separator with "
            "`separator`, or use `label=False` if there is no label"
        )


def _parse(text: str, layout: _Layout, columns: Columns) -> Batch | None:
    """All fields as numbers at array speed, or None if any line needs a closer look."""
    lines = [line for line in text.split("\n") if line.strip(layout.blanks)]
    if not lines:
        return Batch(np.empty((0, len(columns.values))), None, None, None, None, None)
    if any(line.count(layout.separator) != columns.width - 1 for line in lines):
        return None
    if layout.separator != ",":
        if "," in text:
            return None
        lines = [line.replace(layout.separator, ",") for line in lines]
    if any(blank in text for blank in layout.blanks):  # a blank field would be read as -1
        dense = "\n".join(["", *lines, ""]).encode().translate(None, layout.blanks.encode())
        if b",," in dense or b",\n" in dense or b"\n," in dense:
            return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # unreadable text shows in the count below
        try:
            numbers = np.fromstring(",".join(lines), sep=",")
        except ValueError:
            return None
    if len(numbers) != len(lines) * columns.width or not np.isfinite(numbers).all():
        return None
    table = numbers.reshape(len(lines), columns.width)
    if columns.label is None:
        return Batch(table[:, columns.values], None, None, None, None, None)
    if np.any(np.abs(table[:, columns.label]) >= EXACT):
        return None
    spelt = [label.strip(layout.blanks) for label in _of_lines(lines, columns)]
    return Batch(table[:, columns.values], None, None, None, np.array(spelt, object), None)


def _of_lines(lines: list[str], columns: Columns) -> list[str]:
    """The label field of each line, whose fields are separated by commas; from the nearer end of the line."""
    assert columns.label is not None
    after = columns.width - 1 - columns.label
    if columns.label <= after:
        return [line.split(",", columns.label + 1)[columns.label] for line in lines]
    return [line.rsplit(",", after + 1)[-1 - after] for line in lines]


def _parse_slowly(text: str, first_line: int, layout: _Layout, columns: Columns) -> Batch:
    """Like `_fast`, but with quotes, text labels, True and False. Raises DataError at the first bad line.

    If values do not parse, the error names all columns of this text with such values.
    """
    labels: list[str] = []
    values: list[list[float]] = []
    refused: dict[int, _Refused] = {}  # by the place of the column
    for number, line in enumerate(text.split("\n"), first_line):
        if not line.strip(layout.blanks):
            continue
        where = f"{layout.path}, line {number}"
        try:
            raw = layout.fields(line, where)
            fields = [field.strip(_BLANKS) for field in raw]
            if len(fields) != columns.width:
                raise DataError(f"{where}: {len(fields)} columns where the first line has {columns.width}")
            if columns.label is not None:
                labels.append(_label(fields[columns.label], where) and _unquoted(raw[columns.label], line))
        except DataError:
            if refused:  # report earlier errors first
                break
            raise
        values.append(_row(fields, number, columns, refused))
    if refused:
        raise DataError(_refusal(layout.path, columns, refused))
    table = np.array(values).reshape(len(values), len(columns.values))
    if columns.label is None:
        return Batch(table, None, None, None, None, None)
    return Batch(table, None, None, None, np.array(labels, object), None)


def _unquoted(field: str, line: str) -> str:
    """The text of a field, without blanks around it unless it is in quotes."""
    quoted = '"' in line and '"{}"'.format(field.replace('"', '""')) in line
    return field if quoted else field.strip(_BLANKS)


def _label(text: str, where: str) -> str:
    """A label, unchanged. Raises DataError if it is missing, or a number in a spelling that only Python reads."""
    if not text:
        raise DataError(f"{where}: the label is missing; drop the row or give it a label")
    if is_number(text):
        if not is_plain(text):
            raise DataError(f"{where}: the label {text[:SHOWN]} is neither a number nor a name; write it differently")
        check_label(float(text), text, where)
    return text


class _Refused(NamedTuple):
    """The first invalid value of a column: its line, its text, and how to correct it; how many lines have one."""

    line: int
    text: str
    mend: str
    lines: int = 1


def _row(fields: list[str], line: int, columns: Columns, refused: dict[int, _Refused]) -> list[float]:
    """The numbers of a line. Records the first invalid value of each column in `refused`."""
    row = []
    for place in columns.values.tolist():
        value = _value(fields[place])
        if value is None:
            before = refused.get(place)
            refused[place] = _fault(fields[place], line) if before is None else before._replace(lines=before.lines + 1)
        else:
            row.append(value)
    return row


def _value(text: str) -> float | None:
    """The number in a field, 1 or 0 for True or False; None if it is not a finite number."""
    try:
        value = strict_number(text)
        return value if np.isfinite(value) else None
    except ValueError:
        return truth(text)


def _fault(text: str, line: int) -> _Refused:
    if text.count(",") == 1 and is_number(text.replace(",", ".")):
        return _Refused(line, text, "write decimals with a point")
    return _Refused(line, text, "drop the row or the column, or replace the value")


def _refusal(path: str, columns: Columns, refused: dict[int, _Refused]) -> str:
    """The message about the invalid values of a text, in one or in several columns."""
    place, first = min(refused.items(), key=lambda one: (one[1].line, one[0]))
    text = repr(first.text[:SHOWN]) if first.text else ""
    if len(refused) == 1:
        what = f"{text} is not a finite number" if text else "the value is missing"
        more = f", as in {first.lines - 1} more of the lines read" if first.lines > 1 else ""
        return f"{path}, line {first.line}, {columns.called(place)}: {what}{more}; {first.mend}"
    named = ", ".join(columns.called(one).removeprefix("column ") for one in sorted(refused))
    what = f"{text} in line {first.line}" if text else f"the missing one in line {first.line}"
    mend = first.mend if "point" in first.mend else "drop these columns or rows, or replace the values by numbers"
    return f"{path}: {len(refused)} columns hold values that are not finite numbers, such as {what}: {named}; {mend}"
