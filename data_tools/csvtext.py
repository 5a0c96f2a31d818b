"""CSV: numbers separated by commas, one column of labels, with or without a header line."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator

import numpy as np

from data_tools.rows import Batch
from data_tools.textfile import pieces
from streammargin.errors import DataError, UsageError

LABEL_NAMES = ("label", "class", "target", "y")


def read_csv(path: str, label_column: str | None = None) -> Iterator[Batch]:
    """Dense batches (float64) with labels, numbers or text.

    label_column: a name of the header line, or a number from 0 (-1 is the last). By default the column
    called label, class, target or y, else the last one. Raises DataError naming line and column.
    """
    header: list[str] | None = None
    width = position = -1
    for first_line, raw in pieces(path):
        text = _decode(raw, path, first_line)
        if width < 0:
            fields = next(csv.reader([text.split("\n", 1)[0]]), [])
            width = len(fields)
            if width < 2:
                raise DataError(f"{path}, line 1: one column only; rows need a label and values, separated by commas")
            header = None if any(_is_number(field) for field in fields) else [field.strip() for field in fields]
            position = _find(label_column, header, width, path)
            if header is not None:
                text = text.split("\n", 1)[1]
                first_line += 1
        batch = _parse(text, width, position) or _parse_slowly(path, text, first_line, width, position, header)
        if batch.rows:
            yield batch


def _decode(raw: bytes, path: str, line: int) -> str:
    try:
        text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line += raw[: error.start].count(b"\n")
        raise DataError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    return text.replace("\r\n", "\n")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


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
        raise UsageError(f"{path} has no column {wanted!r} for --label-column; it has {names}") from None
    if not -width <= position < width:
        raise UsageError(f"--label-column {position} is outside the {width} columns of {path} (they count from 0)")
    return position % width


def _parse(text: str, width: int, position: int) -> Batch | None:
    """All fields as numbers at array speed, or None if any line needs a closer look."""
    lines = [line for line in text.split("\n") if line and not line.isspace()]
    if not lines:
        return Batch(np.empty((0, width - 1)), None, None, None, np.empty(0), None)
    if any(line.count(",") != width - 1 for line in lines):
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
    return Batch(np.delete(table, position, axis=1), None, None, None, table[:, position].copy(), None)


def _parse_slowly(
    path: str, text: str, first_line: int, width: int, position: int, header: list[str] | None
) -> Batch:  # fmt: skip
    """The same with quotes and labels of text; raises DataError at the first line that does not parse."""
    labels: list[str] = []
    values: list[list[float]] = []
    for number, line in enumerate(text.split("\n"), first_line):
        if not line or line.isspace():
            continue
        fields = next(csv.reader([line]), [])
        where = f"{path}, line {number}"
        if len(fields) != width:
            raise DataError(f"{where}: {len(fields)} columns where the first line has {width}")
        labels.append(fields.pop(position).strip())
        if not labels[-1]:
            raise DataError(f"{where}: the label is missing; drop the row or give it a label")
        row = []
        for column, field in enumerate(fields):
            try:
                value = float(field)
                if not np.isfinite(value):
                    raise ValueError
            except ValueError:
                column += column >= position
                name = f"column {column}" if header is None else f"column {header[column]}"
                what = "the value is missing" if not field.strip() else f"{field.strip()!r} is not a finite number"
                raise DataError(f"{where}, {name}: {what}; drop the row or replace the value") from None
            row.append(value)
        values.append(row)
    table = np.array(values).reshape(len(values), width - 1)
    try:
        return Batch(table, None, None, None, np.array([float(label) for label in labels]), None)
    except ValueError:
        return Batch(table, None, None, None, np.array(labels), None)
