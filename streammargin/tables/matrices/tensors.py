"""Files of safetensors: a JSON header that says where each tensor is, and their bytes."""

from __future__ import annotations

import json
import math
import os
from typing import Any, TypeGuard

import numpy as np

from streammargin.errors import DataError
from streammargin.sources.names import listed
from streammargin.tables.matrices.base import How, Matrix
from streammargin.tables.matrices.npz import Member, named
from streammargin.tables.textfile import Text

TEXT = False
LONGEST = 16 << 20  # bytes of a header: those of the largest models take less
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8",
         "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}  # fmt: skip
BFLOAT16 = "BF16"  # the first half of a float32


def sniff(start: bytes) -> bool:
    """Whether a file with these first bytes is one of safetensors: the length of a header, and its bracket."""
    return len(start) > 8 and 2 <= int.from_bytes(start[:8], "little") <= 1 << 40 and start[8:9] == b"{"


def read(text: Text, how: How) -> Matrix:
    """The rows of one tensor, with labels of the file or of another one."""
    tensors = Tensors(text.name, how)
    x = how.x or ("X" if tensors.has("X") else tensors.only())
    return named(tensors, x, how)


class Tensors:
    """The tensors of a file by name; the stack of `how` closes it. Raises DataError for a damaged header."""

    def __init__(self, path: str, how: How) -> None:
        self.path: str = path
        self._how, self._members = how, dict[str, Member]()
        with open(path, "rb") as file:
            size, length = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(LONGEST, size - 8, how.memory // 32):
                raise DataError(f"{path} is damaged: its header is said to take {length} bytes, and the file has "
                                f"{size}; write it again")  # fmt: skip
            raw = file.read(length)
        try:
            header = json.loads(raw)
            header.pop("__metadata__", None)
            self._lines = {name: dict(line) for name, line in header.items()}
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            why = str(error)[:80]
            raise DataError(
                f"{path} is damaged: its header is not that of safetensors ({why}); write it again"
            ) from None
        self._start, self._size = 8 + length, size - 8 - length

    def arrays(self) -> list[str]:
        """The names of the tensors."""
        return list(self._lines)

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self._lines

    def only(self) -> str:
        """The one tensor of two dimensions. Raises DataError if there are none or several."""
        shapes = {name: line.get("shape") for name, line in self._lines.items()}
        found = [name for name, shape in shapes.items() if isinstance(shape, list) and len(shape) == 2]
        if len(found) != 1:
            raise DataError(f"{self.path}: which tensor has the rows? name it with `x`; there are "
                            f"{listed(found or self.arrays()) or 'none'}")  # fmt: skip
        return found[0]

    def __getitem__(self, name: str) -> Member:
        """A tensor as a stream, bfloat16 as float32. Raises DataError if there is none, or if it lies elsewhere."""
        if name not in self._members:
            self._members[name] = self._opened(name)
        return self._members[name]

    def _opened(self, name: str) -> Member:
        if not self.has(name):
            raise DataError(f"{self.path} has no tensor {name}; it has {listed(self.arrays()) or 'none'}")
        kind, shape, place = (self._lines[name].get(key) for key in ("dtype", "shape", "data_offsets"))
        wide = kind == BFLOAT16
        if not wide and not (isinstance(kind, str) and kind in TYPES):
            raise DataError(f"{self.path}: the tensor {name} is of the type {kind!r:.20}; write it as F32, F16 or BF16")
        stored = np.dtype("<u2" if wide else TYPES[str(kind)])
        if not (_whole(shape) and _whole(place) and len(place) == 2 and place[1] <= self._size) or (
            place[0] + math.prod(shape) * stored.itemsize != place[1]
        ):  # fmt: skip
            raise DataError(f"{self.path} is damaged: the tensor {name} is said to have the shape {shape!r:.60} and to "
                            f"be at {place!r:.60} of {self._size} bytes; write the file again")  # fmt: skip
        file = self._how.opened.enter_context(open(self.path, "rb"))  # noqa: SIM115  # closed by the stack
        file.seek(self._start + place[0])
        stream: Any = Widened(file) if wide else file
        return Member(self.path, name, stream, np.dtype("<f4") if wide else stored, tuple(shape))


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
