"""CSV and its kin: fields between commas, tabs or another character, plain or compressed; parsed by pyarrow.

Every piece of the text is parsed by itself, so that messages have the number of the line, and memory stays small.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import csv as arrow_csv

from streammargin.errors import DataError
from streammargin.tables.readers.base import Reader
from streammargin.tables.stage import writes
from streammargin.tables.textfile import LONGEST_LINE, SHOWN, Text, plain_lines

GAPS = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?"]
TRUE, FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
BLANKS = " \t"


class Delimited(Reader):
    """Rows of fields. header: the names of the first line, which is no row then; None where it is a row.

    columns: of the first line. text: where it is open already, as it can be read once only. Raises DataError.
    """

    gaps: list[str]
    typed: bool
    path: str
    columns: list[str]
    named: bool
    separator: str
    once: bool

    typed, gaps = False, GAPS

    def __init__(self, path: str, separator: str, columns: list[str], header: bool, text: Text | None = None) -> None:
        self.name = self.path = path
        self.separator, self.columns, self.named = separator, columns, header
        self._text, self.once = text, text is not None
        self._rows = self._line = self._here = 0  # rows before the latest piece, its first line, its rows
        self._piece = b""

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        own = [str(place) for place in range(len(self.columns))]  # unique, unlike the names
        place = {name: own[at] for at, name in enumerate(self.columns)}
        text = {place[name]: pa.string() for name in words if name in place}
        convert = arrow_csv.ConvertOptions(
            include_columns=[place[name] for name in columns], column_types=text, null_values=GAPS,
            strings_can_be_null=False, true_values=TRUE, false_values=FALSE,  # a label may be called NA
        )  # fmt: skip
        parse = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        read = arrow_csv.ReadOptions(column_names=own, block_size=1 << 22)
        self._rows = 0
        with Text(self.path) if self._text is None else self._text as source:
            for line, raw in self._pieces(source):
                self._line, self._piece = line, raw
                try:
                    table = arrow_csv.read_csv(pa.BufferReader(raw), read, parse, convert)
                except pa.ArrowInvalid as error:
                    raise self._fault(str(error)) from None
                self._here = table.num_rows
                yield from table.rename_columns(list(columns)).combine_chunks().to_batches()
                self._rows += table.num_rows

    def _pieces(self, source: Text) -> Iterator[tuple[int, bytes]]:
        """(number of its first line, whole rows); a row may have line ends in quotes. The header is left out."""
        header, kept, first = self.named, b"", 1
        for line, raw in source.pieces():
            if not kept:
                first = line
            kept += plain_lines(raw, self.name, line)
            if header:
                cut = _row_end(kept)
                if cut < 0:
                    continue
                first, kept, header = first + kept[:cut].count(b"\n"), kept[cut:], False
            if b'"' in kept and kept.count(b'"') % 2:
                if len(kept) > LONGEST_LINE:
                    raise DataError(f"{self.name}, line {first}: a quote is not closed; is one missing?")
                continue
            if kept.strip(b" \t\n"):
                yield first, kept
            kept = b""
        if kept.strip(b" \t\n"):
            yield first, kept

    def _fault(self, why: str) -> DataError:
        """The first line of the latest piece that is no row of this table."""
        width = len(self.columns)
        try:
            for line, fields in self._lines():
                if len(fields) != width:
                    return DataError(
                        f"{self.name}, line {line}: {len(fields)} columns where the first line has {width}"
                    )
        except csv.Error as error:
            return DataError(f"{self.name}, line {self._line} or later: {error}; is a quote missing?")
        except UnicodeDecodeError as error:
            line = self._line + self._piece[: error.start].count(b"\n")
            return DataError(f"{self.name}, line {line}: not UTF-8 text; save the file as UTF-8")
        return DataError(f"{self.name}, line {self._line} or later: {why[:200]}; write the table again")

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """(number of its first line, fields) of the rows of the latest piece."""
        reader = csv.reader(io.StringIO(self._piece.decode("utf-8"), newline=""), delimiter=self.separator, strict=True)
        before = 0
        for fields in reader:
            if fields:
                yield self._line + before, fields
            before = reader.line_num

    def place(self, row: int) -> str:
        if self._piece.count(b"\n") == self._here:  # a row a line
            return f"line {self._line + row - self._rows}"
        for number, (line, _) in enumerate(self._lines(), self._rows):
            if number == row:
                return f"line {line}"
        return f"row {row}"

    def copied(self, path: str) -> Delimited:
        """A reader of the same text, written to a file first, so that it can be read again."""
        assert self._text is not None
        with self._text as source, writes(path), open(path, "wb") as file:
            for _, raw in source.pieces():
                file.write(raw)
        other = Delimited(path, self.separator, self.columns, self.named)
        other.name = self.name
        return other

    def files(self) -> list[str]:
        return [self.path] if self._text is None else []

    def fingerprint(self) -> str:
        found = os.stat(self.path)
        return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def _row_end(text: bytes) -> int:
    """The end of the first row, line ends in quotes apart; -1 where the row does not end."""
    end = text.find(b"\n") + 1
    while end and text[:end].count(b'"') % 2:
        end = text.find(b"\n", end) + 1
    return end or -1


def first_rows(source: Text, separator: str, most: int = 2) -> list[list[str]]:
    """The fields of the first rows, as text. Raises DataError."""
    path, lines = source.name, most
    while True:  # a row may have line ends in quotes
        kept = source.peek(lines)
        if kept.count(b"\n") < lines:  # all of the text
            whole = kept
            break
        whole = kept[: kept.rfind(b"\n") + 1]
        if whole.count(b'"') % 2 == 0:
            break
        lines *= 2
    kept = plain_lines(whole, path, 1)
    try:
        text = io.StringIO(kept.decode("utf-8"), newline="")
        found: list[list[str]] = []
        for fields in csv.reader(text, delimiter=separator, skipinitialspace=True, strict=True):
            found.append([field.strip(BLANKS) for field in fields])
            if len(found) == most:
                break
        return found
    except UnicodeDecodeError as error:
        line = 1 + kept[: error.start].count(b"\n")
        raise DataError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path}, line 1: {error}; is a quote missing, in {kept[:SHOWN]!r}?") from None
