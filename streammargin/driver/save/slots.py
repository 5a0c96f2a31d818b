"""A slot of a checkpoint: one file of plain values and arrays, refused unless it is complete.

Its parts: MAGIC, the header's length (8 bytes, little endian), the header, the bytes of the arrays, and a BLAKE2b
digest (32 bytes) of all that. The header is JSON: the plain values, and name, dtype and shape of every array.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
from io import BufferedReader
from typing import Any

import numpy as np

from streammargin.files import check_still_apart

MAGIC_START = b"streammargin checkpoint "
FORMAT = 11  # a new number wherever a resumed training would end in other bits
MAGIC = MAGIC_START + b"%d\n" % FORMAT
DIGEST = 32
LARGEST_EXTENT = 1 << 48  # extent of an array's dimension
TYPES = {"<f8", "<f4", "<i8", "<i4", "<i2", "<u4", "|u1", "|i1", "|b1"}
SLOTS, PART_FILE, LOCK = ("slot-a", "slot-b"), "slot.part", "lock"  # file names in a checkpoint directory
WRITTEN = "written"  # the same: lines of job, size and digest of files that trainings wrote beside their models

Arrays = dict[str, np.ndarray]
Entry = tuple[str, str, tuple[int, ...]]  # name, type and shape of an array


def write_slot(path: str, plain: dict[str, Any], arrays: Arrays) -> None:
    """Write to a temporary file, and rename it to `path` once it is on disk. After an OSError the old file stays."""
    part = os.path.join(os.path.dirname(path), PART_FILE)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part)  # left by a killed process; unlinking a link keeps its target
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    listed = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    header = json.dumps({"plain": plain, "arrays": listed}).encode()
    digest = hashlib.blake2b(digest_size=DIGEST)
    try:
        with open(part, "xb", buffering=0) as file:  # "x": never write into an existing file
            pieces = [memoryview(MAGIC + len(header).to_bytes(8, "little") + header), *map(_bytes_of, arrays.values())]
            for piece in pieces:
                digest.update(piece)
                _write(file, piece)
            _write(file, memoryview(digest.digest()))
            os.fsync(file.fileno())
        check_still_apart(path)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def written_by(folder: str) -> dict[str, str]:
    """The paths that a training writes for checkpoints in this folder, itself included (description -> path)."""
    names = {f"the checkpoint's {name}": os.path.join(folder, name) for name in (*SLOTS, PART_FILE, LOCK, WRITTEN)}
    return {"the directory of checkpoints": folder, **names}


def record(folder: str, job: str, path: str) -> None:
    """Add the file at `path` to what this training wrote. A failing disk costs the line, and no more."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError), open(os.open(os.path.join(folder, WRITTEN), flags, 0o666), "w") as file:
        file.write(f"{job} {os.path.getsize(path)} {_digest(path)}\n")


def written_of(folder: str, path: str) -> str | None:
    """The training with checkpoints in this folder that wrote a file of these very bytes; None for none."""
    with contextlib.suppress(OSError, ValueError), _opened(os.path.join(folder, WRITTEN)) as lines:
        told = [line.split() for line in lines.read().decode().splitlines()]
        size = str(os.path.getsize(path))  # only a file of a size that is recorded is read
        jobs = {line[2]: line[0] for line in told if len(line) == 3 and line[1] == size}
        return jobs.get(_digest(path)) if jobs else None
    return None


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def is_foreign(part: str) -> bool:
    """Whether this is a nonempty file that is not the beginning of a slot."""
    if os.path.islink(part) or not os.path.isfile(part):
        return False
    with _opened(part) as file:
        start = file.read(len(MAGIC_START))
    return not MAGIC_START.startswith(start) and bool(start.strip(b"\0"))  # zeros: data lost at a crash


def _opened(path: str) -> BufferedReader:
    """A regular file of the directory, for reading: no link is followed, and a pipe does not block. OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file")
    return open(handle, "rb")


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data  # works for an empty array too


def _write(file: Any, view: memoryview) -> None:
    while view:
        view = view[file.write(view) :]


def read_plain(path: str) -> dict[str, Any]:
    """The plain values only, without checking the digest. Raises ValueError if the file is not a slot; OSError."""
    with _opened(path) as file:
        return _header(file)[1]


def read_slot(path: str) -> tuple[dict[str, Any], Arrays]:
    """The arguments of `write_slot`. Raises ValueError if the file is cut short, altered or not a slot; OSError."""
    with _opened(path) as file:
        start, plain, listed = _header(file)
        if len(start) + sum(_size(*entry) for entry in listed) + DIGEST != os.fstat(file.fileno()).st_size:
            raise ValueError("it is cut short")
        digest = hashlib.blake2b(start, digest_size=DIGEST)
        # allocate only now: the file is as large as the header says
        arrays = {name: _read_array(file, digest, dtype, shape) for name, dtype, shape in listed}
        if file.read() != digest.digest():
            raise ValueError("it was altered")
        return plain, arrays


def _header(file: BufferedReader) -> tuple[bytes, dict[str, Any], list[Entry]]:
    """(all bytes up to the end of the header, plain values, arrays that follow). Raises ValueError."""
    start = file.read(len(MAGIC) + 8)
    length = int.from_bytes(start[len(MAGIC) :], "little")
    form = re.match(MAGIC_START + rb"(\d+)\n", start)
    if form and int(form[1]) != FORMAT:
        raise ValueError(f"its format is {int(form[1])}, of another version of streammargin; this one reads {FORMAT}")
    if start[: len(MAGIC)] != MAGIC or length > os.fstat(file.fileno()).st_size:
        raise ValueError("it is cut short, or not a checkpoint")
    header = file.read(length)
    try:
        content = json.loads(header)
        plain, listed = content["plain"], [_entry(*entry) for entry in content["arrays"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("it was altered") from error
    if not isinstance(plain, dict):
        raise ValueError("it was altered")
    return start + header, plain, listed


def _entry(name: str, dtype: str, shape: list[int]) -> Entry:
    sides = all(type(side) is int and 0 <= side < LARGEST_EXTENT for side in shape)
    if not isinstance(name, str) or dtype not in TYPES or not sides:
        raise ValueError("not an array")
    return name, dtype, tuple(shape)


def _size(name: str, dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _read_array(file: BufferedReader, digest: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(shape, dtype)
    if array.size:
        view = _bytes_of(array)
        if file.readinto(view) != len(view):
            raise ValueError("it is cut short")
        digest.update(view)
    return array
