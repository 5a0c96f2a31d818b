"""Text files, plain or compressed, as pieces that end at a line's end."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import Any

from streammargin.errors import DataError, InputMissingError

PIECE = 4 << 20
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def pieces(path: str, size: int = PIECE) -> Iterator[tuple[int, bytes]]:
    """(number of its first line from 1, whole lines) until the file ends.

    Raises InputMissingError, and DataError for a damaged compressed file.
    """
    opener = _OPENERS.get(os.path.splitext(path)[1].lower(), open)
    line, rest = 1, b""
    try:
        with opener(path, "rb") as file:
            while True:
                part = file.read(size)
                if not part:
                    break
                cut = part.rfind(b"\n") + 1
                if cut == 0:
                    rest += part
                    continue
                whole = rest + part[:cut]
                rest = part[cut:]
                yield line, whole
                line += whole.count(b"\n")
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or cut short near line {line} ({error}); fetch it again") from error
    except OSError as error:
        if error.errno is None:  # bz2 reports damage so
            raise DataError(f"{path} is damaged near line {line} ({error}); fetch it again") from error
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    if rest:
        yield line, rest + b"\n"


def plain_stem(path: str) -> str:
    """The path without the suffix of its compression."""
    stem, suffix = os.path.splitext(path)
    return stem if suffix.lower() in _OPENERS else path
