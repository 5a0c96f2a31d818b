"""Matrix Market text (.mtx): entries `row column value`, with names in files beside it, such as single-cell counts.

There a column is a cell. Its names stand in barcodes.tsv, those of the rows in features.tsv or genes.tsv, plain or
compressed; the matrix is turned around then, so that a cell is a row.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streammargin.errors import DataError
from streammargin.sources.batch import Ordered
from streammargin.sources.names import as_names
from streammargin.tables.file_format import MARKET, FileFormat
from streammargin.tables.matrices.base import How, beside
from streammargin.tables.matrices.compressed import Entries, check_shape, check_space, deal
from streammargin.tables.textfile import Text, decoded, plain_lines

COLUMN_FILES = ("features", "genes")


class Head(NamedTuple):
    """The first lines: the size, whether entries have values, and the number of the line of the size."""

    rows: int
    columns: int
    entries: int
    pattern: bool
    line: int


def inside(folder: str) -> str | None:
    """The matrix of a folder of single-cell counts, or None."""
    found = [os.path.join(folder, f"matrix.mtx{end}") for end in ("", ".gz", ".bz2", ".xz")]
    return next(filter(os.path.isfile, found), None)


def names_beside(path: str) -> dict[str, str]:
    """The files with names beside a matrix: barcodes and features -> path. The words before `matrix` are the same."""
    folder, name = os.path.split(path)
    before, matrix, _ = name.rpartition("matrix.mtx")
    before = before if matrix else name.partition(".mtx")[0] + "_"
    found = {}
    for what, kinds in (("barcodes", ("barcodes",)), ("features", COLUMN_FILES)):
        for kind, end in itertools.product(kinds, ("", ".gz", ".bz2", ".xz")):
            file = os.path.join(folder, f"{before}{kind}.tsv{end}")
            if os.path.isfile(file) and what not in found:
                found[what] = file
    return found


def read(text: Text, how: How) -> Ordered:
    """The rows, with labels of another file; those of single-cell counts are the cells."""
    path = text.name
    head = _head(text, path)
    files = names_beside(path)
    names = {what: list(_first_fields(file)) for what, file in files.items()}
    turned = _turned(head, names, files, path)
    shape = check_shape((head.columns, head.rows) if turned else (head.rows, head.columns), path)
    check_space(how.near, 8 * shape[0])  # a small file may declare very many empty rows
    entries = _entries(text.pieces(), head, path, turned)
    found = deal(entries, shape, head.entries, path, how)
    features = as_names(names["features"], files["features"]) if "features" in names else None
    ids = iter(names["barcodes"]) if "barcodes" in names else None
    return Ordered(beside(found, path, how), True, shape[1], np.dtype(np.float32), features, ids=ids)


def _head(text: Text, path: str) -> Head:
    """The head, which stays in the text. Raises DataError."""
    what = text.peek(1).partition(b"\n")[0].decode("latin-1").lower().split()[1:5]
    if len(what) < 4 or what[:2] != ["matrix", "coordinate"] or what[2] not in ("real", "integer", "pattern"):
        raise DataError(f"{path} holds {' '.join(what)[:80] or 'nothing'}; a matrix of coordinates with real, integer "
                        "or no values can be read; write one with scipy.io.mmwrite")  # fmt: skip
    if what[3] != "general":
        raise DataError(f"{path} is {what[3][:40]}, and its other half would be missing; write it with "
                        "scipy.io.mmwrite(..., symmetry='general')")  # fmt: skip
    line, number, most = b"%", 1, 1
    while not line or line.startswith(b"%"):
        most *= 2
        lines = text.peek(most).split(b"\n")
        ended = len(lines) <= most  # else the last line may be a part of one
        found = ((line.strip(), place) for place, line in enumerate(lines[1 : None if ended else -1], 2))
        line, number = next((pair for pair in found if pair[0] and not pair[0].startswith(b"%")), (b"", len(lines)))
        if not line and ended:
            raise DataError(f"{path}, line {number}: the file ends before the size of the matrix; fetch it again")
    sizes = line.split()
    if len(sizes) != 3 or not all(size.isdigit() and len(size) < 19 for size in sizes):
        raise DataError(f"{path}, line {number}: {line[:40]!r} is not rows, columns and entries; write the file again")
    rows, columns, entries = map(int, sizes)
    return Head(rows, columns, entries, what[2] == "pattern", number)


def _first_fields(path: str) -> Iterator[str]:
    """The first field of each line of a file of names."""
    with Text(path) as text:
        for line, raw in text.pieces():
            for row in decoded(plain_lines(raw, path, line), path, line).split("\n")[:-1]:
                yield row.split("\t", 1)[0]


def _turned(head: Head, names: dict[str, list[str]], files: dict[str, str], path: str) -> bool:
    """Whether columns of the matrix are the rows. Raises DataError if the names do not fit."""
    counts = {what: len(found) for what, found in names.items()}
    for turned, size in ((True, (head.columns, head.rows)), (False, (head.rows, head.columns))):
        if all(counts[what] == size[what == "features"] for what in counts):
            return turned and bool(counts)
    said = ", ".join(f"{files[what]} has {count} lines" for what, count in counts.items())
    raise DataError(f"{path} is {head.rows} x {head.columns}, but {said}; take the files from one place again")


def _entries(pieces: Iterator[tuple[int, bytes]], head: Head, path: str, turned: bool) -> Entries:
    """The entries in the order of the file. Raises DataError for one that is out of range, or is missing."""
    width, seen = 2 if head.pattern else 3, 0
    for number, raw in pieces:
        if number <= head.line:
            raw = b"".join(raw.split(b"\n", head.line - number + 1)[head.line - number + 1 :])
            number = head.line + 1
        table = _numbers(raw, width, number, path)
        i, j = table[:, 0], table[:, 1]
        wrong = (i < 1) | (i > head.rows) | (j < 1) | (j > head.columns) | (i != np.rint(i)) | (j != np.rint(j))
        if wrong.any():
            row = table[int(np.flatnonzero(wrong)[0])]
            raise DataError(
                f"{path}, from line {number} on: the entry {row[0]:g} {row[1]:g} is outside of a matrix of {head.rows} "
                f"x {head.columns}, which counts from 1; write it again"
            )
        seen += len(table)
        values = np.ones(len(table)) if head.pattern else table[:, 2]
        at = i.astype(np.int64) - 1, j.astype(np.int64) - 1
        yield *(at[::-1] if turned else at), values
    if seen != head.entries:
        raise DataError(f"{path} has {seen} entries, but line {head.line} says {head.entries}; fetch it again")


def _numbers(raw: bytes, width: int, number: int, path: str) -> np.ndarray:
    """The numbers of whole lines (m, width). Raises DataError for the first line that has other ones."""
    raw = plain_lines(raw, path, number)
    found = _parsed(raw)
    lines = raw.count(b"\n")
    if found is not None and found.size == width * lines:
        return found.reshape(-1, width)
    kept = []
    for place, line in enumerate(raw.split(b"\n"), number):
        if not line.strip() or line.lstrip().startswith(b"%"):
            continue
        values = _parsed(line)
        if values is None or values.size != width:
            raise DataError(f"{path}, line {place}: {line[:40].decode('latin-1')!r} is not an entry of {width} "
                            "numbers; write the file again")  # fmt: skip
        kept.append(values)
    return np.array(kept).reshape(-1, width)


def _parsed(raw: bytes) -> np.ndarray | None:
    """All numbers of a text, None if there is something else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(raw.decode("ascii"), sep=" ")
        except (ValueError, DeprecationWarning):
            return None


FORMATS = (FileFormat(MARKET, read, text=True, starts=(b"%%MatrixMarket",), inside=inside),)
