"""Text files, plain or compressed, as pieces that end at a line's end."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import math
import os
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from streammargin.errors import DataError, InputMissingError

PIECE = 4 << 20
EXACT = 2.0**53  # labels, as all numbers in text, are read as float64
_START = 1 << 16
_SUFFIXES = (".gz", ".bz2", ".xz")
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_BOM = b"\xef\xbb\xbf"


class _Ahead:
    """A file whose first bytes are known before it is read."""

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


class Text:
    """A text file, compressed or not (its content tells), opened once and read front to back: a pipe will do.

    name: for messages. start: its first bytes, decompressed. Raises InputMissingError, and DataError for a
    damaged compressed file.
    """

    def __init__(self, path: str) -> None:
        self.name, self._line = path, 1
        with contextlib.ExitStack() as stack, self._errors():
            raw = _Ahead(stack.enter_context(open(path, "rb")))
            opener = next((opener for magic, opener in _OPENERS.items() if raw.start.startswith(magic)), None)
            self._text = raw if opener is None else _Ahead(stack.enter_context(opener(raw)))
            if self._text.start.startswith(_BOM):
                self._text.skip(len(_BOM))
            self._open = stack.pop_all()
        self.start: bytes = self._text.start

    def __enter__(self) -> Text:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def pieces(self, size: int = PIECE) -> Iterator[tuple[int, bytes]]:
        """(number of its first line from 1, whole lines) until the file ends."""
        if b"\r" in self.start and b"\n" not in self.start:
            raise DataError(
                f"{self.name}, line 1: lines end in carriage returns; write newlines: tr '\\r' '\\n' < IN > OUT"
            )
        rest = b""
        while True:
            with self._errors():
                part = self._text.read(size)
            if not part:
                break
            cut = part.rfind(b"\n") + 1
            if cut == 0:
                rest += part
                continue
            whole = rest + part[:cut]
            rest = part[cut:]
            yield self._line, whole
            self._line += whole.count(b"\n")
        if rest:
            yield self._line, rest + b"\n"

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        where = f"{self.name} is damaged or cut short near line {self._line}"
        try:
            yield
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{where} ({error}); fetch it again") from error
        except OSError as error:
            if error.errno is None:  # bz2 reports damage so
                raise DataError(f"{where} ({error}); fetch it again") from error
            raise InputMissingError(f"{self.name} cannot be read ({error.strerror})") from error


def plain_stem(path: str) -> str:
    """The path without the suffix of its compression."""
    stem, suffix = os.path.splitext(path)
    return stem if suffix.lower() in _SUFFIXES else path


def strict_number(text: str) -> float:
    """float() without the spellings that only Python reads: 1_000, or digits of other scripts. Raises ValueError."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def check_label(label: float, text: str, where: str) -> None:
    """DataError for a label that is not finite, or so large that float64 merges it with its neighbours."""
    if not math.isfinite(label):
        raise DataError(f"{where}: the label is {text}; drop the row or give it a label")
    if abs(label) >= EXACT:
        raise DataError(f"{where}: the label {text} is too large to be exact; number the classes below 2^53")
