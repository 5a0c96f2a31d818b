"""Batches written to numbered buckets on disk, to reorder more rows than fit in memory; and the room on a disk."""

from __future__ import annotations

import os
import shutil
from typing import Any

import numpy as np

from streammargin.errors import DataError, OutputError, UsageError
from streammargin.files import writes
from streammargin.sizes import format_size
from streammargin.sources.batch import Batch

_MOST = 4096  # buckets; each has a few files


class Spill:
    """Append batches to buckets, then read each bucket back whole. The files live in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._kinds: dict[str, np.dtype] = {}
        self._digits: set[str] = set()  # parts that are written as the digits of whole numbers
        self._tails: dict[str, tuple[int, ...]] = {}  # shapes of the entries of parts

    def _path(self, bucket: int, part: str) -> str:
        return os.path.join(self._folder, f"{bucket}.{part}")

    def append(self, bucket: int, batch: Batch) -> None:
        """Add the rows of a batch to a bucket. Raises ReadWriteError when the disk is full."""
        parts = batch._asdict()
        if batch.indptr is not None:
            parts["indptr"] = np.diff(batch.indptr)  # row lengths, which can be appended
        for name, values in parts.items():
            if values is None:
                continue
            self._tails[name] = values.shape[1:]
            if values.dtype.kind in "OU":
                texts = [str(text).encode() for text in values.tolist()]
                self._write(bucket, f"{name}.lengths", np.array(list(map(len, texts)), np.int64))
                values = np.frombuffer(b"".join(texts), np.uint8)
            self._write(bucket, name, values)

    def _write(self, bucket: int, part: str, values: np.ndarray) -> None:
        with writes(self._folder):
            values = values.astype(self._widen(part, values.dtype), copy=False)
            with open(self._path(bucket, part), "ab") as file:
                file.write(np.ascontiguousarray(values).view(np.uint8).data)

    def _widen(self, name: str, kind: np.dtype) -> np.dtype:
        """The type that holds both the values already written and these. Converts the written ones."""
        old = self._kinds.setdefault(name, kind)
        wide = np.result_type(old, kind)
        if wide.kind == "f" and old.kind in "iu" and kind.kind in "iu":
            wide = np.dtype("S20")  # int64 beside uint64: no number type holds both
            self._digits.add(name)
        if wide != old:
            for entry in os.scandir(self._folder):
                if entry.name.endswith(f".{name}"):
                    np.fromfile(entry.path, old).astype(wide).tofile(entry.path)
            self._kinds[name] = wide
        return wide

    def read(self, bucket: int) -> Batch | None:
        """All rows of a bucket in order of arrival, or None if it is empty. Deletes the bucket."""
        found: dict[str, Any] = {}
        for name, kind in self._kinds.items():
            path = self._path(bucket, name)
            if os.path.exists(path):
                found[name] = np.fromfile(path, kind).reshape(-1, *self._tails.get(name, ()))
                os.unlink(path)
        for name in [name for name in found if name.endswith(".lengths")]:
            ends = np.cumsum(found.pop(name)).tolist()
            of = name.removesuffix(".lengths")
            found[of] = _texts(found[of].tobytes(), ends)
        found = dict.fromkeys(Batch._fields) | found
        if found["indptr"] is not None:
            found["indptr"] = np.concatenate([[0], np.cumsum(found["indptr"])]).astype(np.int64)
        labels = found["labels"]
        if labels is not None and "labels" in self._digits:
            found["labels"] = _whole(labels)
        batch = Batch(**found)
        return None if batch.X is None and batch.indptr is None else batch


def _texts(raw: bytes, ends: list[int]) -> np.ndarray:
    """The texts (m,) of these bytes that end there, as objects; those that are the same are one."""
    same: dict[bytes, str] = {}
    found = np.empty(len(ends), object)
    for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        part = raw[start:end]
        found[row] = same.get(part) or same.setdefault(part, part.decode())
    return found


def _whole(digits: np.ndarray) -> np.ndarray:
    """Whole numbers (m,) of their digits. Raises DataError if no type of numbers holds them."""
    numbers = [int(each) for each in digits.tolist()]
    try:
        return np.array(numbers, np.int64 if max(numbers, default=0) < 2**63 else np.uint64)
    except OverflowError:
        raise DataError(
            f"no type of numbers holds the labels {min(numbers)} and {max(numbers)}; give labels as text"
        ) from None


def buckets_for(nbytes: int, memory: int, least: int = 1 << 20, held: int = 0) -> int:
    """The number of buckets, such that one of them and its reordered copy fit in memory with a margin.

    held: bytes of the memory in other use.

    Raises UsageError if memory is below `least`, or would need too many buckets.
    """
    least = max(least, -(-4 * nbytes // _MOST)) + held
    if memory < least:
        need = -(-least // (1 << 20))
        raise UsageError(f"a memory budget of {format_size(memory)} is too small here; use `memory={need}M` or more")
    return max(1, -(-4 * nbytes // (memory - held)))


def check_space(path: str, nbytes: int) -> None:
    """Raises OutputError if the disk of `path` has fewer than nbytes free."""
    folder = os.path.dirname(os.path.realpath(path))
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise OutputError(
            f"{path} would take {format_size(nbytes)} and {folder} has {format_size(free)} free; free some space"
        )
