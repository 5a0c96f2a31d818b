"""What a spool was made of: a text that changes with files, whether they are written anew or altered in place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from streammargin.errors import InputMissingError, StreamMarginError
from streammargin.files import check_input

PIECE = 1 << 12  # bytes that are read at a place of a file
PLACES, LEAST = 64, 4  # places of a file; fewer of many files: their first and last bytes, and two between
MOST = 16 << 20  # bytes that are read of all files, unless they are very many
_END = b"PAR1", b"ARROW1"  # behind a footer and its size, in the last bytes of Parquet and of Feather


def stamp(paths: Iterable[str]) -> str:
    """A text that changes with these files: sizes, times, inodes, and a sample of their bytes; "" for no files.

    Of the times, that of the status cannot be put back. A small file is read whole, and so is a footer, which has the
    least and largest values of the columns of Parquet. Raises InputMissingError.
    """
    files = list(paths)
    places = max(LEAST, min(PLACES, MOST // (PIECE * max(1, len(files)))))
    return " ".join(_of_file(path, places) for path in files)


def _of_file(path: str, places: int) -> str:
    check_input(path)
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            last = max(0, status.st_size - PIECE)
            for place in sorted({last * number // (places - 1) for number in range(places)}):
                file.seek(place)
                digest.update(file.read(PIECE))
            start = _footer(file, status.st_size)
            file.seek(start)
            while start < status.st_size and (part := file.read(1 << 20)):
                digest.update(part)
    except OSError as error:
        if isinstance(error, StreamMarginError):
            raise
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{status.st_size} {times} {status.st_ino} {digest.hexdigest()}"


def _footer(file: Any, size: int) -> int:
    """Where the footer of a Parquet or Feather file begins; its end if there is none."""
    for end in _END:
        head = len(end) + 4
        if size > head:
            file.seek(size - head)
            found = file.read(head)
            if found[4:] == end:
                return max(0, size - head - int.from_bytes(found[:4], "little"))
    return size
