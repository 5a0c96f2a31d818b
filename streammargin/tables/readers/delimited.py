"""CSV and its kin: fields between commas, tabs or another character, plain or compressed; parsed by pyarrow.

Every piece of the text is parsed by itself, so that messages have the number of the line, and memory stays small.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from streammargin.arrow import csv as arrow_csv
from streammargin.arrow import pa, pc
from streammargin.errors import DataError, StreamMarginError
from streammargin.files import writes
from streammargin.tables.file_format import CSV, FileFormat
from streammargin.tables.header import Expected, check_different, is_header, names_of
from streammargin.tables.readers.base import BLANKS, Reader, Room
from streammargin.tables.textfile import LONGEST_LINE, LONGEST_ROW, TEXT_PIECE, Text, decoded, plain_lines, plain_stem
from streammargin.wording import counted, short, shown, warn

CSV_GAPS = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?"]
TRUE, FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
PADDED, LOOKED_AT = re.compile("0[0-9]+"), 1 << 16  # a number of a code; bytes of the first rows
BY_NAME = {".tsv": "\t", ".tab": "\t"}  # endings with their separator
OTHER_SEPARATORS = ("\t", ";", "|")  # than a comma
BLANK_BESIDE_QUOTE = (b'" ', b' "', b'"\t', b'\t"')  # found much faster than a pattern


class Delimited(Reader):
    """Rows of fields. header: the names of the first line, which is no row then; None if it is a row.

    columns: of the first line. text: if it is open already, as it can be read once only. Raises DataError.
    """

    gaps: list[str] = CSV_GAPS
    typed: bool = False

    def __init__(self, path: str, separator: str, columns: list[str], header: bool, room: Room,
                 text: Text | None = None) -> None:  # fmt: skip
        self.room = room
        self.path: str = path
        self.name = path
        self.separator: str = separator
        self.columns: list[str] = columns
        self.named: bool = header
        self.once: bool = text is not None
        self._text = text
        self._rows = self._line = self._here = 0  # rows before the latest piece, its first line, its rows
        self._piece = b""
        self.padded: dict[str, str] = {}
        self._places: dict[int, str] = {}  # of rows of the latest piece
        blanks, mark = BLANKS.replace(separator, ""), re.escape(separator)
        # a quote with blanks outside or inside of it: these are told apart, which Arrow does not
        self._apart = re.compile(
            rf'(?:^|{mark})(?:[{blanks}]+"(?!"[^{mark}\n])|"[{blanks}])|[{blanks}]"(?:{mark}|$)|"[{blanks}]+(?:{mark}|$)'
            .encode(), re.MULTILINE,
        )  # fmt: skip
        self._blank = re.compile(rf"[{blanks}\n]*".encode())
        self._empty = re.compile(rf"^[{blanks}]+$".encode(), re.MULTILINE)

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        own = [str(place) for place in range(len(self.columns))]  # unique, unlike the names
        place = {name: own[at] for at, name in enumerate(self.columns)}
        text = {place[name]: pa.string() for name in words if name in place}

        def convert(types: dict[str, pa.DataType]) -> arrow_csv.ConvertOptions:
            return arrow_csv.ConvertOptions(
                include_columns=[place[name] for name in columns], column_types=types, null_values=CSV_GAPS,
                strings_can_be_null=False, true_values=TRUE, false_values=FALSE,  # a label may be called NA
            )  # fmt: skip

        parse = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        self._rows = 0
        with Text(self.path) if self._text is None else self._text as source:
            bound(source, self.room)
            source.piece = self.room.text(TEXT_PIECE, len(self.columns))
            for line, raw in self._pieces(source):
                self._line, self._piece, self._places = line, raw, {}
                if not self._rows:
                    self._look_for_codes()
                try:
                    if raw.count(b'"') % 2:  # of the last piece: to Arrow the end of the text closes a quote
                        for _ in self._lines():
                            pass
                    blank = b" " in raw or b"\t" in raw
                    plain = (
                        not (blank and any(pair in raw for pair in BLANK_BESIDE_QUOTE))
                        or self._apart.search(raw) is None
                    )
                    whole = raw if plain else _joined(_split(raw.decode("utf-8"), self.separator), self.separator)
                    # a row must lie in one block
                    read = arrow_csv.ReadOptions(column_names=own, block_size=max(1 << 22, len(whole)))
                    table = arrow_csv.read_csv(pa.BufferReader(whole), read, parse, convert(text))
                    # Arrow knows one spelling of dates, and to it 0x10 is a whole number, to us a word
                    hexed = pa.types.is_integer if b"0x" in whole or b"0X" in whole else lambda _: False
                    dated = {each.name: pa.string() for each in table.schema if pa.types.is_temporal(each.type)}
                    again = dated | {each.name: pa.string() for each in table.schema if hexed(each.type)}
                    text |= dated
                    if again:
                        table = arrow_csv.read_csv(pa.BufferReader(whole), read, parse, convert(text | again))
                except (pa.ArrowInvalid, csv.Error, UnicodeDecodeError) as error:
                    raise self._fault(str(error)) from None
                self._here = table.num_rows
                if len(whole) > LONGEST_LINE:
                    self._check_fields(table, columns)
                for batch in table.combine_chunks().to_batches():
                    arrays = [
                        _words(column, plain, name not in words)
                        for name, column in zip(columns, batch.columns, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
                self._rows += table.num_rows

    def _look_for_codes(self) -> None:
        """Find the columns of the first piece with numbers that begin with 0, which Arrow leaves out."""
        text = self._piece[: self._piece.rfind(b"\n", 0, LOOKED_AT) + 1].decode("utf-8", "replace")
        with contextlib.suppress(csv.Error):  # said when the piece is parsed
            for fields in csv.reader(io.StringIO(text, newline="\n"), delimiter=self.separator):
                for name, word in zip(self.columns, (field.strip(BLANKS) for field in fields), strict=False):
                    if PADDED.fullmatch(word):
                        self.padded.setdefault(name, word)

    def _pieces(self, source: Text) -> Iterator[tuple[int, bytes]]:
        """(number of its first line, whole rows); a row may have line ends in quotes. The header is left out."""
        header, kept, first = self.named, b"", 1
        pieces = source.pieces()
        for line, raw in pieces:
            if not kept:
                first = line
            raw = plain_lines(raw, self.name, line, fields=True)
            # lines of blanks are no rows, unless they are in quotes; one byte is found much faster than two
            if (b" " in raw and b"\n " in raw) or (b"\t" in raw and b"\n\t" in raw):
                raw = raw if kept or b'"' in raw else self._empty.sub(b"", raw)
            kept += raw
            cut = _row_end(kept) if header else 0
            if cut < 0 or kept.count(b'"') % 2:
                if len(kept) > min(source.longest, 4 * LONGEST_LINE):
                    raise self._unfinished(source, pieces, kept, first)
                continue
            _check_returns(kept, self.name, first, self.separator)
            if header:
                first, kept, header = first + kept[:cut].count(b"\n"), kept[cut:], False
            if not self._blank.fullmatch(kept):  # ends at the first letter
                yield first, kept
            kept = b""
        if not self._blank.fullmatch(kept):
            yield first, kept

    def _unfinished(
        self, source: Text, pieces: Iterator[tuple[int, bytes]], kept: bytes, first: int
    ) -> StreamMarginError:  # fmt: skip
        """The error for the last row of these lines, which is not whole though it has all the memory for one."""
        start = 0
        while (end := _row_end(kept, start)) > 0:
            start = end
        line, length, quotes = first + kept.count(b"\n", 0, start), len(kept) - start, kept.count(b'"', start)
        for _, raw in pieces:
            end = _row_end(raw, 0, quotes)
            if end > 0:
                return source.too_long(line, length + end)
            length, quotes = length + len(raw), quotes + raw.count(b'"')
            if length > 4 * LONGEST_LINE:
                break
        return DataError(f"{self.name}, line {line}: a quote is not closed; is one missing?")

    def _check_fields(self, table: pa.Table, columns: Sequence[str]) -> None:
        """DataError for a field that is longer than any may be."""
        for name, column in zip(columns, table.columns, strict=True):
            sizes = pc.binary_length(column) if pa.types.is_string(column.type) else None
            if sizes is not None and (pc.max(sizes).as_py() or 0) > LONGEST_LINE:
                row = self._rows + pc.index(pc.greater(sizes, LONGEST_LINE), True).as_py()
                raise DataError(
                    f"{self.name}, {self.place(row)}, column {short(name)}: longer than {LONGEST_LINE} bytes; "
                    "shorten it; or is a quote missing?"
                )

    def _fault(self, why: str) -> DataError:
        """The first line of the latest piece that is no row of this table."""
        width, line = len(self.columns), self._line - 1
        try:
            for line, fields in self._lines():
                if len(fields) != width:
                    return DataError(
                        f"{self.name}, line {line}: {counted(len(fields), 'column')}, but the first line has {width}"
                    )
        except csv.Error as error:
            return DataError(f"{self.name}, line {line + 1} or later: {error}; is a quote missing?")
        except UnicodeDecodeError:
            try:
                decoded(self._piece, self.name, self._line)
            except DataError as fault:
                return fault
        return DataError(f"{self.name}, line {self._line} or later: {why[:200]}; write the table again")

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """(number of its first line, fields) of the rows of the latest piece."""
        text, before = io.StringIO(self._piece.decode("utf-8"), newline="\n"), 0
        with _long_fields():
            reader = csv.reader(text, delimiter=self.separator, strict=True)
            for fields in reader:
                if fields:
                    yield self._line + before, fields
                before = reader.line_num

    def place(self, row: int) -> str:
        if row not in self._places:  # each column of a wide table asks for the same rows
            self._places[row] = self._place(row)
        return self._places[row]

    def _place(self, row: int) -> str:
        if self._piece.count(b"\n") == self._here:  # a row a line
            return f"line {self._line + row - self._rows}"
        with contextlib.suppress(csv.Error):  # a quote that Arrow takes for a letter
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
        other = Delimited(path, self.separator, self.columns, self.named, self.room)
        other.name = self.name
        return other

    def files(self) -> list[str]:
        return [self.path] if self._text is None else []


def bound(text: Text, room: Room) -> None:
    """Its rows may be as long as the memory allows."""
    text.most, text.memory = LONGEST_ROW, room.memory


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    """Python's csv takes fields as long as a line may be; its limit is one of the process."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _words(column: pa.Array, trimmed: bool, guessed: bool) -> pa.Array:
    """A column without blanks at the ends of its words; numbers if a guess of the type missed that all are.

    trimmed: whether blanks are to be taken off; guessed: whether the column may hold numbers.
    """
    if not pa.types.is_string(column.type):
        return column
    column = pc.utf8_trim(column, BLANKS) if trimmed else column
    if not guessed:
        return column
    known = pc.if_else(pc.is_in(column, value_set=pa.array(CSV_GAPS)), None, column)
    first = known.drop_null()[:1]
    numbers = _number(known) if len(first) and _number(first) is not None else None  # most columns of words end here
    return column if numbers is None else numbers


def _number(words: pa.Array) -> pa.Array | None:
    """Words as numbers, True and False as 1 and 0; None if one is no number."""
    lower = pc.utf8_lower(pc.utf8_trim(words, BLANKS))
    plain = pc.if_else(pc.equal(lower, "true"), "1", pc.if_else(pc.equal(lower, "false"), "0", lower))
    try:
        return pc.cast(pc.replace_substring_regex(plain, r"^\+(\d|\.)", r"\1"), pa.float64())
    except pa.ArrowInvalid:
        return None


def _split(text: str, separator: str) -> Iterator[list[str]]:
    """The fields of each row, without blanks around them unless these are in quotes. Raises csv.Error."""
    blanks, mark = BLANKS.replace(separator, ""), re.escape(separator)
    field = re.compile(rf'[{blanks}]*(?:"([^"]*(?:""[^"]*)*)"[{blanks}]*|((?:[^"{mark}\n][^{mark}\n]*)?))({mark}|\n)')
    row: list[str] = []
    place = 0
    while place < len(text):
        found = field.match(text, place)
        if found is None:
            raise csv.Error(f"{separator!r} expected after a quote")
        place = found.end()
        row.append(found[2].strip(BLANKS) if found[1] is None else found[1].replace('""', '"'))
        if found[3] == "\n":
            if row != [""]:
                yield row
            row = []


def _joined(rows: Iterable[list[str]], separator: str) -> bytes:
    """Rows as delimited text."""
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator, lineterminator="\r\n").writerows(rows)  # these two are quoted
    return out.getvalue().encode()


def _row_end(text: bytes, start: int = 0, quotes: int = 0) -> int:
    """The end of the row that begins at `start`, line ends in quotes apart; -1 if the row does not end.

    quotes: how many of the row are in front of the text.
    """
    place, end, inside = start, start - 1, quotes % 2 > 0
    while True:  # from quote to quote: a field may have very many line ends
        if inside:
            place = text.find(b'"', place) + 1
            if not place:
                return -1
        else:
            end = text.find(b"\n", place) if end < place else end
            if end < 0 or (quote := text.find(b'"', place, end)) < 0:
                return end + 1 or -1
            place = quote + 1
        inside = not inside


def _check_returns(text: bytes, path: str, line: int, separator: str) -> None:
    """DataError for a carriage return outside of quotes within a line, which Arrow and pandas take for its end."""
    if b"\r" not in text:
        return
    quoted = rf'(?:^|{re.escape(separator)})[{BLANKS}]*"[^"]*(?:""[^"]*)*"'.encode()
    found = next((one for one in re.finditer(quoted + rb"|\r", text, re.MULTILINE) if one[0] == b"\r"), None)
    if found is not None:
        ends = text.count(b"\n", 0, found.start())
        raise DataError(
            f"{path}, line {line + ends}: a control character, '\\r', outside of quotes; "
            "take it out: tr -d '\\r' < IN > OUT"
        )


def first_rows(source: Text, separator: str) -> list[list[str]]:
    """The fields of the first rows, at most two, as text. Raises DataError."""
    path, lines = source.name, 2
    while True:  # a row may have line ends in quotes
        kept = source.peek(lines)
        if kept.count(b"\n") < lines:  # all of the text
            whole = kept if kept.endswith(b"\n") else kept + b"\n"
            break
        whole = kept[: kept.rfind(b"\n") + 1]
        if whole.count(b'"') % 2 == 0:
            break
        lines *= 2
    kept = plain_lines(whole, path, 1, fields=True)
    _check_returns(kept, path, 1, separator)
    try:
        text = io.StringIO(decoded(kept, path, 1), newline="\n")
        with _long_fields():
            rows = csv.reader(text, delimiter=separator, skipinitialspace=True, strict=True)
            return [[field.strip(BLANKS) for field in fields] for fields in itertools.islice(rows, 2)]
    except csv.Error as error:
        later = " or later" if "unexpected end" in str(error) else ""  # where a quote that is missing was to stand
        raise DataError(f"{path}, line 1{later}: {error}; is a quote missing, in {shown(text.getvalue())}?") from None


def separated(text: Text, separators: Sequence[str]) -> tuple[str, list[list[str]]]:
    """The first separator with several columns, or else the first of all, and the first rows. Raises DataError."""
    for separator in separators:
        with contextlib.suppress(DataError):  # quotes next to another separator
            rows = first_rows(text, separator)
            if not rows or rows[0] == [""]:  # a blank line, which is no row of blanks between tabs
                break
            if len(rows[0]) > 1:
                return separator, rows
    return separators[0], first_rows(text, separators[0])


def of_text(text: Text, expected: Expected, room: Room, once: bool = False) -> Reader:
    """A reader of delimited text: the separator by suffix or by the first line, the header by its first two lines."""
    path = text.name
    bound(text, room)
    if not text.start:
        raise DataError(f"{path} is empty; check the input")
    separator = expected.separator or BY_NAME.get(os.path.splitext(plain_stem(path))[1].lower(), ",")
    separator, rows = separated(text, [separator, *(OTHER_SEPARATORS if expected.separator is None else ())])
    if not rows or (not any(rows[0]) and len(rows[0]) < 2):
        raise DataError(f"{path}, line 1 is blank; begin the table with a header or a row")
    header = is_header(rows[0], rows[1] if len(rows) > 1 else [], expected)
    if not header and len(rows[0]) > 2 and rows[0] == [str(place) for place in range(len(rows[0]))]:
        warn(
            f"{path}: the first line numbers the columns, and is read as a row; if it is a header, "
            "remove it, or write other names"
        )
    columns = names_of(rows[0]) if header else [str(place) for place in range(len(rows[0]))]
    check_different(path, columns)
    return Delimited(path, separator, columns, header, room, text if once else None)


def sniff(start: bytes) -> bool:
    """Whether the first line has a separator."""
    line = next(filter(None, (line.strip() for line in start.splitlines())), b"")
    return any(mark.encode() in line for mark in (",", *OTHER_SEPARATORS))


FORMATS = (FileFormat(CSV, of_text, text=True, table=True, sniff=sniff, suffixes=(".csv", *BY_NAME), called="CSV"),)
