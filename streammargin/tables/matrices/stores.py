"""Stores of zarr, versions 2 and 3, such as anndata writes: dense rows, or a csr_matrix, and columns of obs and var.

They are read by zarr-python, the extra `zarr`.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.errors import DataError, MisnamedError, NoSuchRowsError, UsageError
from streammargin.files import reading
from streammargin.sources.arrays import check_filled, stored_as
from streammargin.sources.batch import Batch, Ordered, finite_rows
from streammargin.sources.kinds import is_zarr
from streammargin.sources.labels import LabelCursor, lie_inside, mended
from streammargin.sources.masked import MASK, having, kept
from streammargin.sources.names import listed
from streammargin.tables.file_format import ZARR, FileFormat
from streammargin.tables.matrices.base import How, Take, beside
from streammargin.tables.matrices.compressed import check_kind, check_shape, in_rows
from streammargin.wording import meant

STORE_PIECE_BYTES = 4 << 20  # bytes that are read at a time, or a chunk
LONGEST_STORE_COLUMN = 1 << 28  # entries of a column of labels or names
NEEDED = "rows of zarr are read by zarr-python; install it: pip install 'streammargin[zarr]'"
# zarr raises anything
damage = functools.partial(reading, fault="is damaged, or no store of rows", hint="write it again")


def read(path: str, how: How) -> Ordered:
    """The rows of the store in this folder, with labels of the store or of another file."""
    try:
        import zarr
    except ImportError:
        raise UsageError(f"{path} cannot be read: {NEEDED}") from None
    with damage(path):
        root: Any = zarr.open(path, mode="r")
        store = Store(path, root, how)
        x = how.x or "X"
        node = root if store.is_array(root) else store.found(how.x)
        if node is None:
            above = x.strip("/").rpartition("/")[0]
            home = store.found(above) if above else None
            near = [] if home is None or store.is_array(home) else [f"{above}/{name}" for name in home]
            has = sorted(near or root)
            told = f"name the rows with `x`; {meant(x, has) if how.x else ''}it has {listed(has)}"
            raise (NoSuchRowsError if how.x else DataError)(f"{path} has no array or group {x}; {told}")
        return store.dense(node, x) if store.is_array(node) else store.sparse(node, x)


class Store:
    """A store of zarr, open for reading."""

    def __init__(self, path: str, root: Any, how: How) -> None:
        self.path, self._root, self._how = path, root, how

    @staticmethod
    def is_array(node: Any) -> bool:
        """Whether this is an array, and no group."""
        return hasattr(node, "shape")

    def found(self, name: str | None) -> Any:
        """The array or group of this name, X by default; None if there is none."""
        node = self._root
        for part in (name or "X").strip("/").split("/"):
            if self.is_array(node) or part not in node:
                return None
            node = node[part]
        return node

    def checked(self, array: Any, name: str, most: int = 0) -> Any:
        """The array. DataError, UsageError if a chunk, or all of at most `most` entries, takes too much memory."""
        if not self.is_array(array):
            raise DataError(f"{self.path}: {name} is a group, not an array; write the store again")
        if 0 in array.chunks and 0 not in array.shape:
            raise DataError(f"{self.path}: {name} has chunks of the shape {array.chunks}; write the store again")
        chunk = math.prod(array.chunks) * array.dtype.itemsize
        if chunk > max(STORE_PIECE_BYTES, self._how.memory // 4):
            least = -(-4 * chunk >> 20)
            raise UsageError(f"a chunk of {name} in {self.path} takes {chunk >> 20}M; use `memory={least}M` or more")
        if most and math.prod(array.shape) > most:
            raise DataError(f"{self.path}: {name} has {math.prod(array.shape)} entries, too many")
        return array

    def dense(self, array: Any, name: str) -> Ordered:
        """The rows of an array (n, d)."""
        where = f"{self.path}: {name}"
        if len(array.shape) != 2:
            raise DataError(f"{where} has the shape {array.shape}; rows must be a 2-dimensional array, one row each")
        stored, (rows, width) = stored_as(array.dtype, where), array.shape
        check_filled(self.path, rows, width)
        array, chunk = self.checked(array, name), int(array.chunks[0])
        across = chunk * width * array.dtype.itemsize  # bytes of the chunks beside each other
        if across > max(STORE_PIECE_BYTES, self._how.memory // 2):
            raise UsageError(f"{chunk} rows of {where} lie in chunks beside each other, of {across >> 20}M; use "
                             f"`memory={(2 * across >> 20) + 1}M` or more")  # fmt: skip
        step = chunk * max(1, STORE_PIECE_BYTES // max(1, across))

        def batches() -> Iterator[Batch]:
            for start in range(0, rows, step):
                with damage(self.path):
                    X = np.asarray(array[start : start + step])
                yield finite_rows(X.astype(stored, copy=False), self.path, start)

        return self._matrix(batches(), False, (rows, width), stored, name)

    def sparse(self, group: Any, name: str) -> Ordered:
        """The rows of a csr_matrix or a csc_matrix, as anndata stores them."""
        where, kind = f"{self.path}: {name}", str(group.attrs.get("encoding-type"))
        if kind not in ("csr_matrix", "csc_matrix"):
            raise DataError(f"{where} is a group of the kind {kind!r:.40}; name an array or a csr_matrix with `x`")
        shape = check_shape(group.attrs.get("shape"), self.path)
        check_filled(self.path, *shape)
        parts = {part: StoreEntries(self, group, part, where) for part in ("data", "indices", "indptr")}
        found = in_rows(parts, kind == "csr_matrix", shape, self.path, self._how)
        if (end := parts["indptr"].last()) != parts["data"].length:  # before a forged length counts
            raise DataError(f"{where}: indptr ends at {end}, and there are {parts['data'].length} stored values; write "
                            "the store again")  # fmt: skip
        if lost := parts["data"].lost():
            raise DataError(f"{where} lacks the files of {lost} chunks of its values; copy or write the store again")
        if lost := parts["indices"].lost():
            found = _with_zeros(found, f"{where} lacks the files of {lost} chunks of its indices, which count as 0")
        return self._matrix(found, True, shape, stored_as(parts["data"].array.dtype, where), name)

    def _matrix(self, found: Iterator[Batch], sparse: bool, shape: tuple[int, int], stored: Any, name: str) -> Ordered:
        """These rows with names, and with labels and weights: of the store, if it has them, else of other files."""

        rows, width = shape
        mask = self._how.mask
        keep = None if mask is None else having(mask, lambda name: self._beside_rows(name, MASK[0], rows))

        def inside(given: str | None, what: tuple[str, str]) -> Take | None:
            if given is None or not lie_inside(given):
                return None
            values, missing = self._beside_rows(given, what[0], rows)
            if (lacking := missing if keep is None else missing & keep).any():
                key = given.removeprefix("obs/")
                end = mended(int(lacking.sum()), "value", "",
                             f"anndata by cells[cells.obs[{key!r}].notna()].write_zarr('kept.zarr')")  # fmt: skip
                raise DataError(f"{self.path}: row {int(lacking.argmax())} has no {given}{end}")
            return LabelCursor(iter([values])).take

        ids = self._index("obs")
        ordered = Ordered(beside(found, self.path, self._how, inside), sparse, width, stored, self._names(name, width),
                          ids=None if ids is None else iter(ids.tolist()), count=rows,
                          beside=self._columns())  # fmt: skip
        return ordered if keep is None else kept(ordered, keep)

    def _beside_rows(self, name: str, noun: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """(values, which are missing) of a column beside the rows, or of obs. DataError if there is no such one."""
        node = next((one for one in map(self.found, (name, f"obs/{name}")) if one is not None), None)
        if node is None:
            there = self._columns()
            has = f"{meant(name, there)}it has {listed(there)}; name one of these" if there else "it has none"
            raise MisnamedError(f"{self.path} has no column {name} of {noun}; {has}")
        values, missing = self.column(node, name)
        if values.shape[:1] != (rows,) or (values.ndim > 1 and noun == MASK[0]):
            raise DataError(f"{self.path}: {name} has the shape {values.shape}, and there are {rows} rows; they must "
                            "agree")  # fmt: skip
        return values, missing

    def column(self, node: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(values, which are missing) of an array, categories or nullable values. DataError for another column."""
        parts = set() if self.is_array(node) else set(node)
        if {"values", "mask"} <= parts:
            values, _ = self.column(node["values"], f"{name}/values")
            missing = np.asarray(self.checked(node["mask"], f"{name}/mask", LONGEST_STORE_COLUMN)[...])
            if missing.shape != values.shape or missing.dtype.kind not in "biu":
                raise DataError(f"{self.path}: {name} has a mask that does not fit its values; write it again")
            return values, missing.astype(bool)
        if self.is_array(node):
            values = np.asarray(self.checked(node, name, LONGEST_STORE_COLUMN)[...])
            return values.astype(object) if values.dtype.kind in "TO" else values, np.zeros(values.shape[:1], bool)
        if not {"codes", "categories"} <= parts:
            raise DataError(f"{self.path}: {name} is neither an array nor categories; name another column")
        codes = np.asarray(self.checked(node["codes"], f"{name}/codes", LONGEST_STORE_COLUMN)[...])
        words, _ = self.column(node["categories"], f"{name}/categories")
        if codes.dtype.kind not in "iu" or codes.ndim != 1 or words.ndim != 1 or (
            codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < len(words)
        ):  # fmt: skip
            what = f"{self.path}: {name} has codes that are no places of its {len(words)} categories"
            raise DataError(f"{what}; write it again")
        if len({*words.tolist()}) < len(words):  # as if chunks without a file hold zeros, or no letters
            raise DataError(f"{self.path}: {name} has categories that are the same; copy or write the store again")
        return words[codes] if len(words) else np.zeros(len(codes), words.dtype), codes == -1

    def _columns(self) -> list[str]:
        if self.is_array(self._root):
            return []
        obs = self._root.get("obs", {})
        index = getattr(obs, "attrs", {}).get("_index", "_index")
        return [f"obs/{name}" for name in sorted(obs) if name != index] or sorted(self._root)

    def _index(self, table: str) -> np.ndarray | None:
        """The names in the index of obs or var; None if there are none."""
        group = None if self.is_array(self._root) else self.found(table)
        if group is None or self.is_array(group):
            return None
        name = group.attrs.get("_index", "_index")
        if not isinstance(name, str) or name not in group:
            return None
        return np.array([str(one) for one in self.column(group[name], f"{table}/{name}")[0].tolist()], object)

    def _names(self, x: str, width: int) -> np.ndarray | None:
        """The names of the columns: those of var, for X and layers of it; of raw/var, for raw/X."""
        known = x == "X" or x.startswith("layers/")
        names = self._index("var" if known else "raw/var") if known or x == "raw/X" else None
        if names is not None and len(names) != width:
            raise DataError(f"{self.path}: var has {len(names)} names, and {x} has {width} columns; they must agree")
        return names


def _with_zeros(found: Iterator[Batch], said: str) -> Iterator[Batch]:
    """The batches; said: what a DataError of them says first, as chunks without a file hold zeros."""
    try:
        yield from found
    except DataError as error:
        raise DataError(f"{said}; copy or write the store again ({error})") from error


class StoreEntries:
    """An array (m,) that is read front to back, whole chunks at a time."""

    def __init__(self, store: Store, group: Any, part: str, where: str) -> None:
        self.path, self.part = store.path, part
        if part not in group:
            raise DataError(f"{where} has no array {part}; write the store again")
        self.array: Any = store.checked(group[part], f"{where}/{part}")
        check_kind(part, self.array.dtype, self.path)
        if len(self.array.shape) != 1:
            raise DataError(f"{where}: {part} has the shape {self.array.shape}; store it with one dimension")
        self.length: int = int(self.array.shape[0])
        chunk = max(1, int(self.array.chunks[0]))
        self._step = chunk * max(1, STORE_PIECE_BYTES // (chunk * self.array.dtype.itemsize))
        self._at, self._left = 0, np.empty(0, self.array.dtype)

    def last(self) -> int:
        """The last entry; there is one."""
        with damage(self.path):
            return int(np.asarray(self.array[self.length - 1 : self.length])[0])

    def lost(self) -> int:
        """The number of chunks, or of shards, without a file, which zarr takes as zeros."""
        whole = (getattr(self.array, "shards", None) or self.array.chunks)[0]
        count = -(-self.length // max(1, int(whole)))
        folder = os.path.join(self.path, self.array.path)
        there = {int(name) for _, _, names in os.walk(folder) for name in names if re.fullmatch("[0-9]{1,18}", name)}
        return count - sum(number < count for number in there)

    def take(self, count: int) -> np.ndarray:
        """The next entries. Raises DataError if there are fewer."""
        parts, have = [self._left], self._left.size
        while have < count and self._at < self.length:
            with damage(self.path):
                parts.append(np.asarray(self.array[self._at : self._at + self._step]))
            have, self._at = have + parts[-1].size, self._at + self._step
        if have < count:
            raise DataError(f"{self.path} is cut short: {self.part} ends early; write it again")
        whole = np.concatenate(parts)
        self._left = whole[count:].copy()
        return whole[:count]


FORMATS = (FileFormat(ZARR, read, inside=is_zarr),)
