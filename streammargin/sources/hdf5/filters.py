"""Decompress chunks by HDF5's filters and plugins, in memory, with a check of the resulting length.

HDF5 does not check the length of a decompressed chunk: for a shorter one it returns whatever lies in memory behind it.
So a filter of ours runs after the others and refuses a wrong length.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from streammargin.files import short_reason

_LENGTH = 487  # one of the numbers that HDF5 leaves for private use
_LZF = 32000  # its parameters are an estimate of the length
_BITSHUFFLE = 32008
_OWN = {_BITSHUFFLE: 3}  # parameters that bitshuffle itself prepends
_Filter = ctypes.CFUNCTYPE(
    ctypes.c_size_t,  # length of the output; 0: failed
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
    """Register the length filter once, and keep it alive for HDF5."""
    found = _Class(1, _LENGTH, 1, 1, b"length", None, None, _same_length)
    h5py.h5z.register_filter(ctypes.addressof(found))
    return found


def _lz4_fits(raw: bytes, whole: int, values: tuple[int, ...]) -> bool:
    """Check LZ4's big-endian lengths: of the values (8 bytes), of a block (4), and of each compressed block (4)."""
    block, place, left = int.from_bytes(raw[8:12], "big"), 12, whole
    if len(raw) < 12 or int.from_bytes(raw[:8], "big") != whole or not block:
        return False
    while left > 0:
        size = int.from_bytes(raw[place : place + 4], "big")
        # an incompressible block is stored uncompressed
        if size > min(block, left) or place + 4 + size > len(raw):
            return False
        place, left = place + 4 + size, left - block
    return place == len(raw)


def _bitshuffle_fits(raw: bytes, whole: int, values: tuple[int, ...]) -> bool:
    """Like LZ4, but the last values, fewer than eight, follow uncompressed."""
    item = values[2] if len(values) > 2 else 0
    if len(values) < 5 or not values[4]:  # shuffled, not compressed
        return len(raw) == whole
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


def _blosc_fits(raw: bytes, whole: int, values: tuple[int, ...]) -> bool:
    """Check Blosc's little-endian header: four bytes, then 4 each for the lengths of values, block and all."""
    size, block, total = (int.from_bytes(raw[k : k + 4], "little") for k in (4, 8, 12))
    return len(raw) >= 16 and size == whole and 0 < block <= whole and total == len(raw)


def _zstd_fits(raw: bytes, whole: int, values: tuple[int, ...]) -> bool:
    """Check the content length in a Zstandard frame's header (RFC 8878, section 3.1.1.1)."""
    if len(raw) < 14 or raw[:4] != b"\x28\xb5\x2f\xfd":
        return False
    kind, single = raw[4] >> 6, raw[4] >> 5 & 1
    place = 5 + (0 if single else 1) + (0, 1, 2, 4)[raw[4] & 3]
    width = (single, 2, 4, 8)[kind]
    return width > 0 and int.from_bytes(raw[place : place + width], "little") + 256 * (kind == 1) == whole


def _deflate_fits(raw: bytes, whole: int, values: tuple[int, ...]) -> bool:
    """Decompress once here, with a limit: HDF5 would decompress any length before our check."""
    unpacker = zlib.decompressobj()
    try:
        return len(unpacker.decompress(raw, whole + 1)) == whole
    except zlib.error:
        return False


# filter -> check(raw chunk, decompressed length, parameters): whether the lengths that the chunk itself declares are
# true. The plugins trust them when they read and write memory. Other plugins (ZFP, SZ, Sperr, ...) cannot be checked.
_FITS: dict[int, Callable[[bytes, int, tuple[int, ...]], bool] | None] = {
    h5py.h5z.FILTER_DEFLATE: _deflate_fits,
    h5py.h5z.FILTER_SZIP: lambda raw, whole, values: int.from_bytes(raw[:4], "little") == whole,  # its first bytes
    _LZF: None,
    32001: _blosc_fits,
    32004: _lz4_fits,
    _BITSHUFFLE: _bitshuffle_fits,
    32015: _zstd_fits,
    32026: None,  # Blosc2 checks its lengths itself
}
_FLETCHER, _SUM = h5py.h5z.FILTER_FLETCHER32, 4  # and the bytes of its checksum
_KEEPS = (h5py.h5z.FILTER_SHUFFLE, _FLETCHER)  # filters that keep the length, apart from the checksum
_OWN_MOST = 256  # codes of HDF5's own filters are smaller


class Unpacker:
    """Decompresses a dataset's chunks one by one into values of the dtype `stored`, or bytes (void).

    faithful: whether all filters are available here with the parameters that they have in the file. Some plugins
    change theirs for each new dataset. HDF5's own do not: ValueError if their parameters are damaged.
    """

    def __init__(self, dataset: h5py.Dataset, stored: np.dtype) -> None:
        _registered()
        self._source, self._stored, self._shape = dataset, stored, dataset.chunks
        item = stored.itemsize if stored.kind == "V" else dataset.id.get_type().get_size()
        self._whole = int(np.prod(self._shape)) * item
        self._kind = h5py.h5t.py_create(stored, logical=True)
        plist = dataset.id.get_create_plist()
        self._filters = [plist.get_filter(k)[:3] for k in range(plist.get_nfilters())]
        # in memory only; open files need different names
        self._file = h5py.File(f"chunks {id(self)}", "w", driver="core", backing_store=False)
        self._targets: dict[int, h5py.h5d.DatasetID] = {}
        self.faithful: bool = False
        if not self._known():
            return
        try:
            made = self._target(0).get_create_plist()
            found = [made.get_filter(k) for k in range(1, made.get_nfilters())]
        except (OSError, RuntimeError, ValueError):
            found = []
        self.faithful = len(found) == len(self._filters) and all(
            a[0] == b[0] and (a[0] == _LZF or a[2] == b[2]) for a, b in zip(found, self._filters, strict=True)
        )
        if not self.faithful and all(code < _OWN_MOST for code, _, _ in self._filters):
            raise ValueError("its filters do not fit its type and chunks")

    def _known(self) -> bool:
        """Whether the declared lengths can be checked: at most one plugin, besides filters that keep the length."""
        codes = [code for code, _, _ in self._filters]
        plugins = [k for k, code in enumerate(codes) if code >= _OWN_MOST]
        return not plugins or (
            len(plugins) == 1
            and codes[plugins[0]] in _FITS
            and set(codes[: plugins[0]]) <= set(_KEEPS)
            and set(codes[plugins[0] + 1 :]) <= {_FLETCHER}
        )

    def _fits(self, raw: bytes, left_out: int) -> bool:
        """Whether the lengths that a chunk declares are true."""
        applied = [one for position, one in enumerate(self._filters) if not left_out >> position & 1]
        while applied and applied[-1][0] == _FLETCHER:
            raw = raw[:-_SUM]
            applied.pop()
        if not applied:
            return True
        code, _, values = applied.pop()
        before = [one[0] for one in applied]
        whole = self._whole + _SUM * before.count(_FLETCHER)
        fits = _FITS.get(code) if set(before) <= set(_KEEPS) else None
        return fits is None or fits(raw, whole, values)

    def _target(self, left_out: int) -> h5py.h5d.DatasetID:
        """A dataset of one chunk with these filters, except those left out, and the length filter."""
        if left_out not in self._targets:
            numbers = self._stored.kind != "V"
            if numbers:
                plist = self._source.id.get_create_plist()  # some filters use the fill value
                for code, _, _ in self._filters:
                    plist.remove_filter(code)
            else:
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_chunk(self._shape)
            plist.set_alloc_time(h5py.h5d.ALLOC_TIME_INCR)
            plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            plist.set_filter(_LENGTH, 0, (self._whole & 0xFFFFFFFF, self._whole >> 32))
            for position, (code, flags, values) in enumerate(self._filters):
                if not left_out >> position & 1:
                    # optional: some filters can only decode
                    own = values[_OWN.get(code, 0) :]
                    plist.set_filter(code, flags | h5py.h5z.FLAG_OPTIONAL, own)
            kind = self._source.id.get_type() if numbers else self._kind
            space = h5py.h5s.create_simple(self._shape)
            self._targets[left_out] = h5py.h5d.create(self._file.id, str(left_out).encode(), kind, space, plist)
        return self._targets[left_out]

    def __call__(self, raw: bytes | bytearray, left_out: int) -> np.ndarray:
        """The values of a compressed chunk; left_out: bit mask of the filters that were skipped for it.

        Raises OSError if it does not decompress to a whole chunk.
        """
        out = np.empty(self._shape, self._stored)
        raw = bytes(raw)
        if not self._fits(raw, left_out):
            raise OSError("a compressed chunk decompresses to another length")
        try:
            target = self._target(left_out)
            target.write_direct_chunk((0,) * len(self._shape), raw)
            target.read(h5py.h5s.ALL, h5py.h5s.ALL, out, self._kind)
        except (OSError, RuntimeError, ValueError) as error:
            reason = short_reason(error)
            raise OSError(f"a compressed chunk decompresses to nothing, or to another length: {reason}") from error
        return out

    def close(self) -> None:
        self._file.close()
