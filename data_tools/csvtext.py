"""CSV: numbers separated by commas, one column of labels, with or without a header line."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from data_tools.formats import Asked, Found, without_labels
from data_tools.rows import Batch
from data_tools.textfile import EXACT, SHOWN, Text, check_label, plain_lines
from streammargin.data.labels import is_plain, strict_number
from streammargin.errors import DataError, UsageError

TEXT, SUFFIXES = True, (".csv",)
LABEL_NAMES = ("label", "class", "target", "y")
_BLANKS = " \t"
_MISSING = {"", "na", "n/a", "null", "none", "?", "-"}  # in a first line of data, not names


def sniff(start: bytes) -> bool:
    """Whether the first line looks like fields; svmlight's has colons."""
    lines = (line.split(b"#")[0].strip() for line in start.splitlines())
    line = next(filter(None, lines), b"")
    return b":" not in line and any(mark in line for mark in (b",", b";", b"\t"))


def read(text: Text, asked: Asked) -> Found:
    """The rows of a table, without its labels."""
    without_labels(asked)
    return Found(rows_of(text, asked.label_column), False, None, np.dtype(np.float32))


def rows_of(source: Text, label_column: str | None = None) -> Iterator[Batch]:
    """Dense batches (float64) with labels, numbers or text.

    label_column: a name of the header line, or a number from 0 (-1 is the last). By default the column
    called label, class, target or y, else the last one. Raises DataError naming line and column.
    """
    header: list[str] | None = None
    width = position = -1
    path = source.name
    for first_line, raw in source.pieces():
        text = _decode(raw, path, first_line)
        if width < 0:
            first, second = (text.split("\n", 2) + [""])[:2]
            fields = _fields(first, f"{path}, line 1")
            width = len(fields)
            if width < 2:
                _refuse_one_column(first, path)
            header = None
            if _is_header(fields, _fields(second, f"{path}, line 2"), label_column):
                header = [field.strip() for field in fields]
            position = _find(label_column, header, width, path)
            if header is not None:
                text = text.split("\n", 1)[1]
                first_line += 1
        batch = _parse(text, width, position) or _parse_slowly(path, text, first_line, width, position, header)
        if batch.rows:
            yield batch


def _decode(raw: bytes, path: str, line: int) -> str:
    raw = plain_lines(raw, path, line)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line += raw[: error.start].count(b"\n")
        raise DataError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8") from None


def _fields(line: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise DataError(f"{where}: {error}; is a quote missing, or a newline at the end of a line?") from None


def _refuse_one_column(line: str, path: str) -> NoReturn:
    for separator, name in (("\t", "tabs"), (";", "semicolons")):
        if separator in line:
            raise DataError(f"{path}, line 1: fields are separated by {name}; write the file with commas between them")
    raise DataError(f"{path}, line 1: one column only; rows need a label and values, separated by commas")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _is_header(first: list[str], second: list[str], label_column: str | None) -> bool:
    """Whether the first line holds names: no number in it, or names over numbers of the second line.

    Text in the column of labels says nothing, unless it is one of the usual names.
    """
    if not any(_is_number(field) for field in first):
        return True
    names = [field.strip().lower() for field in first]
    if len(set(names)) < len(names) or _MISSING & set(names):
        return False
    label = len(names) - 1
    if label_column is not None:
        try:
            label = int(label_column) % len(names)
        except ValueError:
            return label_column.lower() in names
    return any(
        not _is_number(name) and _is_number(below) and (column != label or name in LABEL_NAMES)
        for column, (name, below) in enumerate(zip(names, second, strict=False))
    )


def _find(wanted: str | None, header: list[str] | None, width: int, path: str) -> int:
    if wanted is None:
        for position, name in enumerate(header or []):
            if name.lower() in LABEL_NAMES:
                return position
        return width - 1
    if header is not None and wanted in header:
        return header.index(wanted)
    try:
        position = int(wanted)
    except ValueError:
        names = ", ".join(header) if header else "no header line"
        raise UsageError(f"{path} has no column {wanted!r} for `label_column`; it has {names}") from None
    if not -width <= position < width:
        raise UsageError(f"`label_column={position}` is outside the {width} columns of {path} (they count from 0)")
    return position % width


def _parse(text: str, width: int, position: int) -> Batch | None:
    """All fields as numbers at array speed, or None if any line needs a closer look."""
    lines = [line for line in text.split("\n") if line.strip(_BLANKS)]
    if not lines:
        return Batch(np.empty((0, width - 1)), None, None, None, np.empty(0), None)
    if any(line.count(",") != width - 1 for line in lines):
        return None
    if any(blank in text for blank in _BLANKS):  # a blank field would be read as -1
        dense = "\n".join(["", *lines, ""]).encode().translate(None, _BLANKS.encode())
        if b",," in dense or b",\n" in dense or b"\n," in dense:
            return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # unreadable text shows in the count below
        try:
            numbers = np.fromstring(",".join(lines), sep=",")
        except ValueError:
            return None
    if len(numbers) != len(lines) * width or not np.isfinite(numbers).all():
        return None
    table = numbers.reshape(len(lines), width)
    if np.any(np.abs(table[:, position]) >= EXACT):
        return None
    return Batch(np.delete(table, position, axis=1), None, None, None, table[:, position].copy(), None)


def _parse_slowly(
    path: str, text: str, first_line: int, width: int, position: int, header: list[str] | None
) -> Batch:  # fmt: skip
    """The same with quotes and labels of text; raises DataError at the first line that does not parse."""
    labels: list[str] = []
    values: list[list[float]] = []
    for number, line in enumerate(text.split("\n"), first_line):
        if not line.strip(_BLANKS):
            continue
        where = f"{path}, line {number}"
        fields = _fields(line, where)
        if len(fields) != width:
            raise DataError(f"{where}: {len(fields)} columns where the first line has {width}")
        labels.append(fields.pop(position).strip(_BLANKS))
        if not labels[-1]:
            raise DataError(f"{where}: the label is missing; drop the row or give it a label")
        if _is_number(labels[-1]):
            if not is_plain(labels[-1]):
                raise DataError(
                    f"{where}: the label {labels[-1][:SHOWN]} is neither a number nor a name; write it differently"
                )
            check_label(float(labels[-1]), labels[-1], where)
        row = []
        for column, field in enumerate(fields):
            try:
                value = strict_number(field.strip(_BLANKS))
                if not np.isfinite(value):
                    raise ValueError
            except ValueError:
                column += column >= position
                name = f"column {column}" if header is None else f"column {header[column]}"
                shown = field.strip(_BLANKS)
                what = f"{shown[:SHOWN]!r} is not a finite number" if shown else "the value is missing"
                raise DataError(f"{where}, {name}: {what}; drop the row or replace the value") from None
            row.append(value)
        values.append(row)
    table = np.array(values).reshape(len(values), width - 1)
    try:
        return Batch(table, None, None, None, np.array([float(label) for label in labels]), None)
    except ValueError:
        return Batch(table, None, None, None, np.array(labels), None)
