"""Filters of HDF5 and of its plugins, undone by HDF5 in memory, where the length of what comes out is looked at.

HDF5 takes what a chunk unpacks to for the whole chunk, whatever its length, and hands out the memory beside it. Here a
filter of ours stands behind the others and refuses another length.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import h5py
import numpy as np

from streammargin.files import short_reason

_LENGTH = 487  # one of the numbers that HDF5 leaves for private use
_LZF = 32000  # its numbers are a guess at the length
_BITSHUFFLE = 32008
_OWN = {_BITSHUFFLE: 3}  # the numbers that bitshuffle puts before those it is given, each time
_Filter = ctypes.CFUNCTYPE(
    ctypes.c_size_t,  # the length of what is handed on; 0: it failed
    ctypes.c_uint,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_void_p),
)


class _Class(ctypes.Structure):
    """H5Z_class2_t."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("id", ctypes.c_int),
        ("encodes", ctypes.c_uint),
        ("decodes", ctypes.c_uint),
        ("name", ctypes.c_char_p),
        ("can_apply", ctypes.c_void_p),
        ("set_local", ctypes.c_void_p),
        ("filter", _Filter),
    )


@_Filter
def _same_length(flags: int, count: int, wanted: Any, length: int, size: Any, buffer: Any) -> int:
    return length if count == 2 and length == wanted[0] | wanted[1] << 32 else 0


@functools.cache
def _registered() -> _Class:
    """The filter, kept alive for HDF5."""
    found = _Class(1, _LENGTH, 1, 1, b"length", None, None, _same_length)
    h5py.h5z.register_filter(ctypes.addressof(found))
    return found


def _blocks_fit(raw: bytes | bytearray, whole: int, item: int) -> bool:
    """Whether the blocks that bitshuffle packed lie in the chunk: it believes their lengths.

    All lengths are big-endian: that of the values (8 bytes), of a block of them (4), and of each packed block (4).
    The last values, fewer than eight, follow as they are.
    """
    block = int.from_bytes(raw[8:12], "big")
    if int.from_bytes(raw[:8], "big") != whole or not block or not item or block % (8 * item):
        return False
    place, left = 12, whole
    while left >= 8 * item:
        place += 4 + int.from_bytes(raw[place : place + 4], "big")
        left -= min(block, left - left % (8 * item))
        if place > len(raw):
            return False
    return place + left == len(raw)


class Unpacker:
    """Undoes the filters of a dataset's chunks, one chunk at a time; values of the type `stored`, or bytes (void).

    faithful: the filters can be had here with the numbers that they have in the file. Some change them whenever a
    dataset is made (ZFP), and their chunks are left to HDF5. HDF5's own do not: ValueError where theirs are damaged.
    """

    def __init__(self, dataset: h5py.Dataset, stored: np.dtype) -> None:
        _registered()
        self._source, self._stored, self._shape = dataset, stored, dataset.chunks
        plist = dataset.id.get_create_plist()
        self._filters = [plist.get_filter(k)[:3] for k in range(plist.get_nfilters())]
        # never written to a disk; HDF5 tells open files apart by their names
        self._file = h5py.File(f"chunks {id(self)}", "w", driver="core", backing_store=False)
        self._targets: dict[int, h5py.h5d.DatasetID] = {}
        try:
            made = self._target(0).get_create_plist()
            found = [made.get_filter(k) for k in range(1, made.get_nfilters())]
        except (OSError, RuntimeError, ValueError):
            found = []
        self.faithful = len(found) == len(self._filters) and all(
            a[0] == b[0] and (a[0] == _LZF or a[2] == b[2]) for a, b in zip(found, self._filters, strict=True)
        )
        if not self.faithful and all(code < 256 for code, _, _ in self._filters):
            raise ValueError("its filters are not those of its type and chunks")

    def _target(self, left_out: int) -> h5py.h5d.DatasetID:
        """A dataset of one chunk, packed by these filters but those left out, with ours behind them."""
        if left_out not in self._targets:
            numbers = self._stored.kind != "V"
            if numbers:
                plist = self._source.id.get_create_plist()  # some filters look at the fill value
                for code, _, _ in self._filters:
                    plist.remove_filter(code)
            else:
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_chunk(self._shape)
            plist.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR)
            plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            whole = int(np.prod(self._shape)) * self._stored.itemsize
            plist.set_filter(_LENGTH, 0, (whole & 0xFFFFFFFF, whole >> 32))
            for position, (code, flags, values) in enumerate(self._filters):
                if not left_out >> position & 1:
                    # optional: some can be undone only
                    own = values[_OWN.get(code, 0) :]
                    plist.set_filter(code, flags | h5py.h5z.FLAG_OPTIONAL, own)
            kind = self._source.id.get_type() if numbers else h5py.h5t.py_create(self._stored)
            space = h5py.h5s.create_simple(self._shape)
            self._targets[left_out] = h5py.h5d.create(self._file.id, str(left_out).encode(), kind, space, plist)
        return self._targets[left_out]

    def __call__(self, raw: bytes | bytearray, left_out: int) -> np.ndarray:
        """The values of a packed chunk; left_out: a bit for each filter that it was not packed by.

        Raises OSError where they do not unpack to a whole chunk.
        """
        out = np.empty(self._shape, self._stored)
        applied = [one for position, one in enumerate(self._filters) if not left_out >> position & 1]
        code, values = (applied[-1][0], list(applied[-1][2])) if applied else (0, [])
        # SZIP says in four bytes how much it packed, and unpacks whole lines
        fits = code != h5py.h5z.FILTER_SZIP or int.from_bytes(raw[:4], "little") == out.nbytes
        if code == _BITSHUFFLE and len(values) > 4 and values[4]:
            fits = _blocks_fit(raw, out.nbytes, values[2])
        if not fits:
            raise OSError("a compressed chunk unpacks to another length")
        try:
            target = self._target(left_out)
            target.write_direct_chunk((0,) * len(self._shape), bytes(raw))
            target.read(h5py.h5s.ALL, h5py.h5s.ALL, out, target.get_type())
        except (OSError, RuntimeError, ValueError) as error:
            reason = short_reason(error)
            raise OSError(f"a compressed chunk unpacks to nothing, or to another length: {reason}") from error
        return out

    def close(self) -> None:
        self._file.close()
