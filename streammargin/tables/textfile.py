"""Text files, plain or compressed, as pieces of whole lines."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from streammargin.errors import DataError, InputMissingError, StreamMarginError, UsageError
from streammargin.matching import EXACT_BELOW
from streammargin.sizes import format_size
from streammargin.wording import short

TEXT_PIECE = 4 << 20
_START = 1 << 16
_SUFFIXES = (".gz", ".bz2", ".xz")
LONGEST_LINE = 1 << 24  # of svmlight and the like, and the longest field of a table
LONGEST_ROW = 1 << 30  # of a table
PARSED = 17  # bytes of memory that parsing takes, for each of the longest row
_LINE_END = re.compile(rb"\r+\n")
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n"))
_BINARY = b"\0\x1a\x1c\x1d\x1e\x1f\x7f"  # those that no field of a table has
_BOM = b"\xef\xbb\xbf"


class _Ahead:
    """A file whose first bytes were already read."""

    def __init__(self, file: Any) -> None:
        self.file, self.start = file, file.read(_START)
        self._left = self.start

    def read(self, size: int) -> bytes:
        if not self._left:
            return self.file.read(size)
        part, self._left = self._left[:size], self._left[size:]
        return part

    def skip(self, count: int) -> None:
        self.start = self._left = self._left[count:]

    def peek(self, lines: int, most: int) -> bytes:
        """The bytes that come next, with this many line ends if there are so many within `most` bytes."""
        parts, have, length = [self._left], self._left.count(b"\n"), len(self._left)
        while have < lines and length < most and (part := self.file.read(_START)):
            parts.append(part)
            have, length = have + part.count(b"\n"), length + len(part)
        self._left = b"".join(parts)
        return self._left


class _Streams:
    """bzip2 or xz: consecutive compressed streams. Python's own readers stop silently at a damaged one."""

    def __init__(self, file: Any, decoder: Callable[[], Any], padding: bytes) -> None:
        self._file, self._new, self._padding = file, decoder, padding
        self._decoder = decoder()

    def read(self, size: int) -> bytes:
        while True:
            data = b""
            if self._decoder.eof:
                rest = self._decoder.unused_data.lstrip(self._padding)
                while not rest:
                    data = self._file.read(_START)
                    if not data:
                        return b""
                    rest = data.lstrip(self._padding)
                data, self._decoder = rest, self._new()
            elif self._decoder.needs_input:
                data = self._file.read(_START)
                if not data:
                    raise EOFError("the compressed stream ends early")
            part = self._decoder.decompress(data, size)
            if part:
                return part


_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": lambda file: _Streams(file, bz2.BZ2Decompressor, b""),
    b"\xfd7zXZ\x00": lambda file: _Streams(file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), b"\0"),
}


class Text:
    """A text file, opened once and read front to back, so it may be a pipe. Its content tells whether it is compressed.

    name: for messages. file: if it is open already. start: its first bytes, decompressed. piece: bytes at a time; most:
    of a line, whatever the memory; memory: bytes, of which a line takes PARSED for each of its own; None: any. Raises
    InputMissingError, and DataError for a damaged compressed file.
    """

    name: str
    piece: int = TEXT_PIECE
    most: int = LONGEST_LINE
    memory: int | None = None

    def __init__(self, path: str, file: Any = None) -> None:
        self.name, self._line = path, 1
        with contextlib.ExitStack() as stack, self._errors():
            raw = _Ahead(stack.enter_context(open(path, "rb")) if file is None else file)
            opener = next((opener for magic, opener in _OPENERS.items() if raw.start.startswith(magic)), None)
            self._text = raw if opener is None else _Ahead(opener(raw))
            if self._text.start.startswith(_BOM):
                self._text.skip(len(_BOM))
            self._open = stack.pop_all()
        self.start: bytes = self._text.start

    def __enter__(self) -> Text:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def peek(self, lines: int) -> bytes:
        """The bytes that come next, with this many line ends if it has them; `pieces` reads them all the same."""
        self._check_line_ends()
        with self._errors():
            return self._text.peek(lines, self.longest)

    @property
    def longest(self) -> int:
        """Bytes of the longest line that is read."""
        return self.most if self.memory is None else min(self.most, max(_START, self.memory // PARSED))

    def too_long(self, line: int, length: int) -> StreamMarginError:
        """The error for a row of so many bytes that begins in this line."""
        if length > self.most:
            return DataError(
                f"{self.name}, line {line}: longer than {self.most} bytes; write each row on a line of its own"
            )
        return UsageError(
            f"{self.name}, line {line}: a row of {format_size(length)}, which takes {PARSED} times as much to read; "
            f"use `memory={-(-PARSED * length >> 20)}M` or more"
        )

    def _length(self, length: int) -> int:
        """Bytes of a line that has so many so far, or more than a line may have; the rest is passed over."""
        while length <= self.most and (part := self._text.read(_START)):
            cut = part.find(b"\n")
            if cut >= 0:
                return length + cut
            length += len(part)
        return length

    def pieces(self, size: int = 0) -> Iterator[tuple[int, bytes]]:
        """(number of its first line from 1, whole lines) until the file ends; size: of a piece, 0 for `piece`."""
        size = size or self.piece
        self._check_line_ends()
        rest: list[bytes] = []  # parts of an unfinished line, joined once
        length = 0
        while True:
            with self._errors():
                part = self._text.read(size)
            if not part:
                break
            cut = part.rfind(b"\n") + 1
            length = length + len(part) if cut == 0 else len(part) - cut
            if length > self.longest:
                line = self._line + part.count(b"\n")
                with self._errors():
                    length = self._length(length)
                raise self.too_long(line, length)
            if cut == 0:
                rest.append(part)
                continue
            whole = b"".join([*rest, part[:cut]])
            rest = [part[cut:]]
            yield self._line, whole
            self._line += whole.count(b"\n")
        last = b"".join(rest)
        if last:
            yield self._line, last + b"\n"

    def _check_line_ends(self) -> None:
        if b"\r" in self.start and b"\n" not in self.start:
            raise DataError(
                f"{self.name}, line 1: lines end in carriage returns; write newlines: tr '\\r' '\\n' < IN > OUT"
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        where = f"{self.name} is damaged or cut short near line {self._line}"
        try:
            yield
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{where} ({error}); fetch it again") from error
        except OSError as error:
            if error.errno is None:  # bz2 reports damage this way
                raise DataError(f"{where} ({error}); fetch it again") from error
            raise InputMissingError(f"{self.name} cannot be read ({error.strerror})") from error


def plain_stem(path: str) -> str:
    """The path without its compression suffix."""
    stem, suffix = os.path.splitext(path)
    return stem if suffix.lower() in _SUFFIXES else path


def plain_lines(raw: bytes, name: str, line: int, fields: bool = False) -> bytes:
    """The lines from this one on, each ended by a newline only. Raises DataError for a control character.

    Only space and tab are blanks. Python strips other characters too, but here they mean a damaged or binary file.
    fields: of a table, where only some of them do.
    """
    refused = _BINARY if fields else _CONTROLS
    if b"\r" in raw:
        raw = _LINE_END.sub(b"\n", raw)
    if len(raw) != len(raw.translate(None, refused)):
        place, found = next((k, byte) for k, byte in enumerate(raw) if byte in refused)
        line += raw[:place].count(b"\n")
        without = f"tr -d '\\{found:03o}' < IN > OUT"
        hint = f"is this a text file? Take it out: {without}"
        if not found:  # half the bytes of plain text in UTF-16
            hint = f"if it is UTF-16, write it as UTF-8: iconv -f UTF-16 -t UTF-8 IN > OUT; else take it out: {without}"
        raise DataError(f"{name}, line {line}: a control character, {chr(found)!r}; {hint}")
    return raw


def decoded(raw: bytes, name: str, line: int) -> str:
    """The text of lines from this one on. Raises DataError if it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line += raw[: error.start].count(b"\n")
        windows = 0x80 <= raw[error.start] < 0xA0  # no characters of Latin-1
        called, code = ("Windows-1252", "CP1252") if windows else ("Latin-1", "LATIN1")
        raise DataError(
            f"{name}, line {line}: not UTF-8 text; if it is {called}, write it as UTF-8: "
            f"iconv -f {code} -t UTF-8 IN > OUT"
        ) from None


def check_label(label: float, text: str, where: str) -> None:
    """Raises DataError for a label that is not finite, or so large that float64 rounds it."""
    if not math.isfinite(label):
        raise DataError(f"{where}: the label is {short(text)}; drop the row or give it a label")
    if abs(label) >= EXACT_BELOW:
        raise DataError(f"{where}: the label {short(text)} is too large to be exact; number the classes below 2^53")
