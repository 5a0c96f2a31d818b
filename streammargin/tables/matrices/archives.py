"""Arrays in files of NumPy, SciPy and safetensors: dense rows, a piece at a time, or one matrix of save_npz."""

from __future__ import annotations

import contextlib
import functools
import json
import lzma
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from streammargin.errors import DataError, MisnamedError, NoSuchRowsError
from streammargin.sources.arrays import check_filled, stored_as
from streammargin.sources.batch import Batch, Ordered, finite_rows
from streammargin.sources.labels import as_values, lie_inside
from streammargin.sources.names import listed
from streammargin.sources.npy import read_header
from streammargin.tables.file_format import NPY, NPZ, TENSORS, FileFormat
from streammargin.tables.matrices.base import How, Inside, Take, beside, nowhere
from streammargin.tables.matrices.compressed import check_kind, check_shape, in_rows
from streammargin.wording import meant

ARCHIVE_PIECE_BYTES = 4 << 20  # of rows, at a time
MEMBERS = ("data", "indices", "indptr", "shape", "format")  # of save_npz
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)
TENSOR_HEADER_BYTES = 16 << 20  # of safetensors: those of the largest models take less
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8",
         "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}  # fmt: skip
BFLOAT16 = "BF16"  # the first half of a float32


class Member(NamedTuple):
    """An array of a file as a stream, front to back. name: "" if the file has no other."""

    path: str
    name: str
    stream: Any
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.path}: {self.name}" if self.name else self.path

    @property
    def length(self) -> int:
        """The entries along the first axis."""
        return self.shape[0]

    def read(self, size: int) -> bytes:
        """The next bytes."""
        try:
            return self.stream.read(size)
        except _DAMAGE as error:
            raise DataError(f"{self.path} is damaged: {self.name} ({str(error)[:80]}); write it again") from error

    def take(self, count: int) -> np.ndarray:
        """The next entries. Raises DataError if the file ends before."""
        raw = self.read(count * self.dtype.itemsize)
        if len(raw) != count * self.dtype.itemsize:
            raise DataError(f"{self.path} is cut short: {self.name} ends early; write it again")
        return np.frombuffer(raw, self.dtype)

    def labels(self, count: int) -> np.ndarray:
        """The next entries along the first axis, as labels."""
        inner = self.shape[1:]
        return as_values(self.take(count * math.prod(inner)).reshape(count, *inner))

    def small(self) -> np.ndarray:
        """A small array as a whole. Raises DataError if it is large."""
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > 64:
            raise DataError(f"{self.path}: the array {self.name} takes {size} bytes, far too many; write it again")
        return self.take(math.prod(self.shape))

    def check_stored(self, stored: int) -> None:
        """Raises DataError unless so many bytes are stored as the header says."""
        if math.prod(self.shape) * self.dtype.itemsize != stored:
            raise DataError(f"{self.where} is damaged: it is said to be {self.shape} of {self.dtype}, but {stored} "
                            "bytes are stored; write it again")  # fmt: skip

    def rows(self, how: How, inside: Inside = nowhere) -> Ordered:
        """The rows (n, d) that this array is, with labels and weights of the file (`beside`) or of other ones."""
        if len(self.shape) != 2:
            raise DataError(
                f"{self.where} has the shape {self.shape}; rows must be a 2-dimensional array, one row each"
            )
        kept = stored_as(self.dtype, f"{self.path}: X")
        check_filled(self.where, *self.shape)
        found = beside(self._batches(kept), self.path, how, inside)
        return Ordered(found, False, self.shape[1], kept, count=self.length)

    def _batches(self, kept: np.dtype) -> Iterator[Batch]:
        rows, columns = self.shape
        size = columns * self.dtype.itemsize
        step = max(1, ARCHIVE_PIECE_BYTES // size)
        for start in range(0, rows, step):
            count = min(step, rows - start)
            raw = self.read(count * size)
            if len(raw) != count * size:
                raise DataError(f"{self.where} is cut short: it has {rows} rows by its header, and ends in row "
                                f"{start + len(raw) // size}; write it again")  # fmt: skip
            X = np.frombuffer(raw, self.dtype).reshape(count, columns)
            yield finite_rows(X.astype(kept, copy=False), self.where, start)


@dataclass(frozen=True)
class Archive:
    """The arrays of a file by name. opens: opens one of them; noun, hint: for messages, what it is, and what to do."""

    path: str
    arrays: Sequence[str]
    opens: Callable[[str], Member]
    noun: str
    hint: str

    def __getitem__(self, name: str) -> Member:
        if name not in self.arrays:
            raise DataError(f"{self.path} has no {self.noun} {name}; {self.hint}")
        return self.opens(name)

    def rows(self, x: str, how: How) -> Ordered:
        """The rows x of an archive, with labels and weights of it or of other files. DataError for another shape."""
        if how.x and x not in self.arrays:
            has = f"{meant(x, self.arrays)}it has {listed(self.arrays)}"
            raise NoSuchRowsError(f"{self.path} has no {self.noun} {x}; {has}; name the rows with `x=NAME`")
        rows = self[x]

        def inside(given: str | None, what: tuple[str, str]) -> Take | None:
            part, name = what[0], given or what[1]
            if name not in self.arrays:
                if lie_inside(given):
                    has = f"{meant(name, self.arrays)}it has {listed(self.arrays)}"
                    raise MisnamedError(f"{self.path} has no array {given} of {part}; {has}")
                return None
            column = self[name]
            if column.shape[:1] != rows.shape[:1] or len(column.shape) > (2 if part == "labels" else 1):
                raise DataError(
                    f"{self.path}: {name} has the shape {column.shape}, and there are {rows.length} rows; store one "
                    "value for each row"
                )
            return column.labels

        return rows.rows(how, inside)


def read_npy(path: str, how: How) -> Ordered:
    """The rows of the array of numpy.save, with the labels of another file."""
    file = how.opened.enter_context(open(path, "rb"))  # noqa: SIM115  # closed by the stack
    try:
        shape, dtype = read_header(file)
    except ValueError as error:
        raise DataError(f"{path} is not an array of numpy.save ({error}); write it again") from error
    found = Member(path, "", file, dtype, shape)
    rows = found.rows(how)
    found.check_stored(os.fstat(file.fileno()).st_size - file.tell())
    return rows


def read_npz(path: str, how: How) -> Ordered:
    """The rows of the matrix of scipy.sparse.save_npz, or of numpy.savez(X=..., y=...)."""
    archive = _npz(path, how.opened)
    x = how.x or "X"
    if "format" not in archive.arrays and x in archive.arrays:
        return archive.rows(x, how)
    if "header" in archive.arrays:
        raise DataError(f"{path} is a model, and has no rows; name a file of rows")
    if "format" not in archive.arrays:
        has = f"{meant(x, archive.arrays) if how.x else ''}it has {listed(archive.arrays)}"
        raise (NoSuchRowsError if how.x else DataError)(
            f"{path} holds a matrix of format unknown, and no array {x}; name the rows with `x=NAME`; {has}"
        )
    named = archive["format"].small().tolist()
    kind = ", ".join(name.decode("latin-1") if isinstance(name, bytes) else name for name in named)
    if kind not in ("csr", "csc"):
        raise DataError(f"{path} holds a matrix of format {kind or 'unknown'}; save it with X.tocsr() first")
    shape = check_shape(archive["shape"].small(), path)
    parts = {name: archive[name] for name in ("data", "indices", "indptr")}
    found = in_rows(parts, kind == "csr", shape, path, how)
    return Ordered(beside(found, path, how), True, shape[1], stored_as(parts["data"].dtype, f"{path}: X"))


def _npz(path: str, opened: contextlib.ExitStack) -> Archive:
    """The arrays of an NPZ file; the stack closes it."""
    try:
        whole = opened.enter_context(zipfile.ZipFile(path))
    except (*_DAMAGE, ValueError, NotImplementedError) as error:
        raise DataError(f"{path} is not an NPZ file ({str(error)[:80]}); write it again") from error

    @functools.cache
    def member(name: str) -> Member:
        try:
            stream = opened.enter_context(whole.open(f"{name}.npy"))
            shape, dtype = read_header(stream)
            stored = whole.getinfo(f"{name}.npy").file_size - stream.tell()
        except (*_DAMAGE, ValueError, NotImplementedError, RuntimeError) as error:
            raise DataError(f"{path} is damaged: {name} is not an array ({str(error)[:80]}); write it again") from error
        if dtype.hasobject:
            raise DataError(f"{path}: the array {name} holds Python objects, which are never unpickled")
        if name in ("data", "indices", "indptr") and len(shape) != 1:
            raise DataError(f"{path}: {name} has the shape {shape}; store it with one dimension")
        if name in MEMBERS:
            check_kind(name, dtype, path)
        if not dtype.itemsize:
            raise DataError(f"{path} is damaged: {name} is said to be {shape} of {dtype}; write it again")
        found = Member(path, name, stream, dtype, shape)
        found.check_stored(stored)
        return found

    arrays = [name.removesuffix(".npy") for name in whole.namelist() if name.endswith(".npy")]
    return Archive(path, arrays, member, "array", "write it with scipy.sparse.save_npz, or with numpy.savez(X=X, y=y)")


def sniff(start: bytes) -> bool:
    """Whether a file with these first bytes is one of safetensors: the length of a header, and its bracket."""
    return len(start) > 8 and 2 <= int.from_bytes(start[:8], "little") <= 1 << 40 and start[8:9] == b"{"


def read_tensors(path: str, how: How) -> Ordered:
    """The rows of one tensor of safetensors, with labels of the file or of another one."""
    lines, start, size = _tensors(path, how)

    @functools.cache
    def member(name: str) -> Member:
        kind, shape, place = (lines[name].get(key) for key in ("dtype", "shape", "data_offsets"))
        wide = kind == BFLOAT16
        if not wide and not (isinstance(kind, str) and kind in TYPES):
            raise DataError(f"{path}: the tensor {name} is of the type {kind!r:.20}; write it as F32, F16 or BF16")
        stored = np.dtype("<u2" if wide else TYPES[str(kind)])
        if not (_whole(shape) and _whole(place) and len(place) == 2 and place[1] <= size) or (
            place[0] + math.prod(shape) * stored.itemsize != place[1]
        ):  # fmt: skip
            raise DataError(f"{path} is damaged: the tensor {name} is said to have the shape {shape!r:.60} and to "
                            f"be at {place!r:.60} of {size} bytes; write the file again")  # fmt: skip
        _check_layout(path, lines, size)
        file = how.opened.enter_context(open(path, "rb"))  # noqa: SIM115  # closed by the stack
        file.seek(start + place[0])
        stream: Any = Widened(file) if wide else file
        return Member(path, name, stream, np.dtype("<f4") if wide else stored, tuple(shape))

    archive = Archive(path, list(lines), member, "tensor", f"it has {listed(lines) or 'none'}")
    return archive.rows(how.x or ("X" if "X" in lines else _only(path, lines)), how)


def _tensors(path: str, how: How) -> tuple[dict[str, dict[str, Any]], int, int]:
    """(what the header of safetensors says of each tensor, where the first begins, bytes of all of them)."""
    with open(path, "rb") as file:
        size, length = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(TENSOR_HEADER_BYTES, size - 8, how.memory // 32):
            raise DataError(f"{path} is damaged: its header is said to take {length} bytes, and the file has "
                            f"{size}; write it again")  # fmt: skip
        raw = file.read(length)
    try:
        header = json.loads(raw)
        if not isinstance(header.pop("__metadata__", {}), dict):
            raise TypeError("__metadata__ is no table")
        return {name: dict(line) for name, line in header.items()}, 8 + length, size - 8 - length
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        why = str(error)[:80]
        raise DataError(f"{path} is damaged: its header is not that of safetensors ({why}); write it again") from None


def _check_layout(path: str, lines: dict[str, dict[str, Any]], size: int) -> None:
    """DataError unless the tensors lie one behind the other, from the first to the last of `size` bytes."""
    end = 0
    places: dict[str, Any] = {name: line.get("data_offsets") for name, line in lines.items()}
    bad = next((name for name, at in places.items() if not (_whole(at) and len(at) == 2 and at[0] <= at[1])), None)
    if bad is not None:
        raise DataError(f"{path} is damaged: its header puts the tensor {bad} at {places[bad]!r:.60}; write it again")
    for name, (start, stop) in sorted(places.items(), key=lambda one: one[1]):
        if start != end:
            raise DataError(f"{path} is damaged: the tensor {name} begins at the byte {start}, and the one before it "
                            f"ends at {end}; write the file again")  # fmt: skip
        end = stop
    if end != size:
        raise DataError(f"{path} is damaged: its tensors end at {end} of {size} bytes; write the file again")


def _only(path: str, lines: dict[str, dict[str, Any]]) -> str:
    """The one tensor of two dimensions. Raises DataError if there are none or several."""
    shapes = {name: line.get("shape") for name, line in lines.items()}
    found = [name for name, shape in shapes.items() if isinstance(shape, list) and len(shape) == 2]
    if len(found) != 1:
        raise DataError(f"{path}: which tensor has the rows? name it with `x`; there are "
                        f"{listed(found or lines) or 'none'}")  # fmt: skip
    return found[0]


def _whole(numbers: Any) -> TypeGuard[list[int]]:
    """Whether these are whole numbers of at least 0, as a list."""
    return isinstance(numbers, list) and all(type(one) is int and one >= 0 for one in numbers)


class Widened:
    """A stream of bfloat16 as one of float32: each number has 16 more bits, of 0."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        """The next bytes of float32; size: a multiple of 4."""
        raw = self._file.read(size // 2)
        return (np.frombuffer(raw[: len(raw) // 2 * 2], "<u2").astype("<u4") << 16).tobytes()


FORMATS = (
    FileFormat(NPY, read_npy, starts=(b"\x93NUMPY",)),
    FileFormat(NPZ, read_npz, starts=(b"PK\x03\x04",)),
    FileFormat(TENSORS, read_tensors, sniff=sniff),
)
