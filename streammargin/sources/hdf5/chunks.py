"""Read the chunks of a dataset, compressed or not: offsets come from HDF5 once, the bytes from preadv.

HDF5's own reads would keep kilobytes per chunk, and trust any length that a chunk decompresses to. For a shorter one
they return whatever lies in memory behind it. HDF5's filters and plugins decompress in memory, with a filter of ours
behind the others that refuses a wrong length.
"""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.files import short_reason

_LENGTH = 487  # one of the numbers that HDF5 leaves for private use
_LZF = 32000  # its parameters are an estimate of the length
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
# true. The plugins trust them when they read and write memory. Chunks of other plugins are not read.
_FITS: dict[int, Callable[[bytes, int, tuple[int, ...]], bool] | None] = {
    h5py.h5z.FILTER_DEFLATE: _deflate_fits,
    h5py.h5z.FILTER_SZIP: lambda raw, whole, values: int.from_bytes(raw[:4], "little") == whole,  # its first bytes
    _LZF: None,
    32001: _blosc_fits,
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
                    plist.set_filter(code, flags | h5py.h5z.FLAG_OPTIONAL, values)
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
            raise damaged("another length")
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


Pread = Callable[[memoryview, int], None]  # fills a view from an offset in the file
_PLACE_BYTES = 16  # memory per chunk: offset and length
_INDEX_BYTES, _MOST_INDEX = 300, 16 << 20  # HDF5's memory for its chunk index: per chunk, and at most
_ADDED = 1 << 16  # bytes that filters may add to a small chunk
_LINE = 1024  # words of it that are added up together
_MODULUS = 0xFFFF


class Chunks:
    """The chunks of a 1- or 2-dimensional dataset; a chunk that was never written has the fill value.

    stored: dtype of the values, or bytes (void) of the same length; alike: the file stores that dtype; else HDF5
    converts the decompressed chunk; keep: keep the last decompressed chunk, for reads of less than a chunk.
    Reading raises OSError for a damaged chunk, DataError for one at an impossible offset.
    """

    def __init__(
        self, dataset: h5py.Dataset, stored: np.dtype, name: str, alike: bool = True, keep: bool = False
    ) -> None:
        self.dataset: Any = dataset
        self.stored: np.dtype = stored
        self.name: str = name
        self.shape: tuple[int, ...] = (*dataset.shape, 1)[:2]
        self.chunk: tuple[int, ...] = (*dataset.chunks, 1)[:2]
        self.across: int = -(-self.shape[1] // self.chunk[1])
        self.count: int = -(-self.shape[0] // self.chunk[0]) * self.across
        values = self.chunk[0] * self.chunk[1]
        item = stored.itemsize if alike else dataset.id.get_type().get_size()
        self.chunk_bytes: int = values * item  # as stored, decompressed
        self._largest = max(self.chunk_bytes, values * stored.itemsize)
        plist = dataset.id.get_create_plist()
        self.filters: list[int] = [int(plist.get_filter(k)[0]) for k in range(plist.get_nfilters())]
        # uncompressed chunks of whole rows need no copy
        self.straight: bool = alike and not self.filters and self.chunk[1] == self.shape[1]
        self._keep = keep
        self._kept: tuple[int, np.ndarray] | None = None
        self._places: np.ndarray | None = None
        self._left_out: dict[int, int] = {}  # bit mask of the filters that were skipped for a chunk
        packed = [code for code in self.filters if code not in _KEEPS]
        known = packed in ([], [h5py.h5z.FILTER_DEFLATE])
        self._unpack = None if alike and known else Unpacker(dataset, stored)

    @property
    def faithful(self) -> bool:
        """Whether the filters can be reversed here."""
        return self._unpack is None or self._unpack.faithful

    @property
    def held_bytes(self) -> int:
        """Bytes in memory: the offsets of all chunks, the chunk being read, and the kept one."""
        copies = 0 if self.straight else 3 + self._keep  # compressed, decompressed and unshuffled
        index = min(self.count * _INDEX_BYTES, _MOST_INDEX)
        return self.count * _PLACE_BYTES + index + copies * self._largest

    def places(self) -> np.ndarray:
        """(offset in the file, bytes) of each chunk, in row-major order; -1 if it was never written.

        Raises DataError for impossible positions, for which HDF5 would return the values of other rows.
        """
        if self._places is None:
            self._places = np.full((self.count, 2), -1, np.int64)
            self._before = 0 if _user_block_counts() else self.dataset.file.userblock_size
            self.dataset.id.chunk_iter(self._note)
            offsets = np.sort(self._places[:, 0])
            if np.any((offsets[1:] == offsets[:-1]) & (offsets[1:] >= 0)):  # two chunks at one offset
                raise _misplaced(self.name)
        return self._places

    def _note(self, info: Any) -> None:
        row, column = (*info.chunk_offset, 0)[:2]
        (rows, columns), (high, wide) = self.chunk, self.shape
        if row % rows or column % columns or row >= high or column >= wide:
            raise _misplaced(self.name)
        # compression never doubles a chunk; a larger size is wrong
        if info.size > 2 * self.chunk_bytes + _ADDED if self.filters else info.size != self.chunk_bytes:
            raise _misplaced(self.name)
        number = row // rows * self.across + column // columns
        assert self._places is not None
        if self._places[number, 0] >= 0:  # two chunks for the same rows
            raise _misplaced(self.name)
        self._places[number] = info.byte_offset + self._before, info.size
        if info.filter_mask:
            self._left_out[number] = info.filter_mask

    def fill(self, start: int, stop: int, target: np.ndarray, pread: Pread) -> None:
        """Read these entries into target (stop - start,) or (stop - start, d).

        It has the stored dtype if chunks are `straight`; else it may have another, to which values are converted.
        """
        out = target.reshape(stop - start, self.shape[1])
        rows, columns = self.chunk
        for line in range(start // rows, -(-stop // rows)):
            low, high = max(start, line * rows), min(stop, (line + 1) * rows)
            here = out[low - start : high - start]
            if self.straight:
                self._fill_straight(line, low - line * rows, here, pread)
                continue
            for place in range(self.across):
                values = self._values(line * self.across + place, pread)
                part = here[:, place * columns : (place + 1) * columns]
                part[...] = values[low - line * rows : high - line * rows, : part.shape[1]]

    def _fill_straight(self, number: int, first: int, out: np.ndarray, pread: Pread) -> None:
        """Read entries of an uncompressed chunk, from the entry `first` of it on."""
        offset = int(self.places()[number, 0])
        if offset < 0:
            out[...] = self._fill_value()
        else:
            view = out.reshape(-1).view(np.uint8)
            pread(memoryview(view), offset + first * self.shape[1] * self.stored.itemsize)  # type: ignore[arg-type]

    def _fill_value(self) -> Any:
        if self.stored.kind == "V":
            raise DataError(f"{self.name} was not written to its end; write the file again")
        return self.dataset.fillvalue

    def _values(self, number: int, pread: Pread) -> np.ndarray:
        if self._kept is not None and self._kept[0] == number:
            return self._kept[1]
        self._kept = None
        offset, size = self.places()[number].tolist()
        if offset < 0:
            return np.full(self.chunk, self._fill_value(), self.stored)
        raw = bytearray(size)
        pread(memoryview(raw), offset)
        values = self._unpacked(raw, self._left_out.get(number, 0))
        if self._keep:
            self._kept = number, values
        return values

    def _unpacked(self, raw: Any, left_out: int) -> np.ndarray:
        if self._unpack is not None:
            return self._unpack(raw, left_out).reshape(self.chunk)
        applied = [code for position, code in enumerate(self.filters) if not left_out >> position & 1]
        while applied:
            code = applied.pop()
            if code == _FLETCHER:
                raw = checked(raw)
            elif code == h5py.h5z.FILTER_SHUFFLE:
                raw = _unshuffled(raw, self.stored.itemsize)
            else:
                sums = _SUM * applied.count(_FLETCHER)
                raw = _unpacked(raw, self.chunk_bytes + sums)
        if len(raw) != self.chunk_bytes:
            raise damaged(f"{len(raw)} bytes")
        return np.frombuffer(raw, self.stored).reshape(self.chunk)

    def close(self) -> None:
        if self._unpack is not None:
            self._unpack.close()


@functools.cache
def _user_block_counts() -> bool:
    """Whether HDF5 counts chunk offsets from the start of the file, as documented, or after the user block."""
    block = 1 << 16
    with h5py.File("user block", "w", driver="core", backing_store=False, userblock_size=block) as file:
        dataset = file.create_dataset("X", data=np.zeros(1), chunks=(1,))
        return bool(dataset.id.get_chunk_info(0).byte_offset >= block)


def _misplaced(name: str) -> DataError:
    where, _, part = name.rpartition(": ")
    return DataError(f"{where}: a chunk of {part} has an impossible position; copy or convert the file again")


def _unpacked(raw: Any, whole: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(raw, whole + 1)
    except zlib.error as error:
        raise damaged(f"nothing ({error})") from error
    if not unpacker.eof:
        raise damaged("another length")
    return found


def _unshuffled(raw: Any, item: int) -> np.ndarray:
    """The bytes of values of `item` bytes, of which all first bytes come first; what is over stays at the end."""
    shuffled = np.frombuffer(raw, np.uint8)
    found = np.empty(len(shuffled), np.uint8)
    count = len(shuffled) // item
    values, found[count * item :] = found[: count * item].reshape(count, item), shuffled[count * item :]
    for k in range(item):  # a byte of all values at a time: NumPy's transposed copy takes far longer
        values[:, k] = shuffled[k * count : (k + 1) * count]
    return found


def checked(raw: Any) -> np.ndarray:
    """The bytes before the checksum; OSError if it is not theirs."""
    data = np.frombuffer(raw, np.uint8)
    data, stored = data[:-_SUM], data[-_SUM:].tobytes()
    found = fletcher32(data).to_bytes(_SUM, "little")
    # HDF5 1.6.2 and before wrote each half with its bytes swapped on some machines
    if stored not in (found, found[1::-1] + found[:1:-1]):
        raise damaged("bytes that are not those of its checksum")
    return data


def fletcher32(data: np.ndarray) -> int:
    """The checksum of bytes (n,): the sum of big-endian words of 16 bits, and that of its partial sums, modulo 65535.

    A sum that is a multiple of 65535 is 65535, and 0 only of zeros.
    """
    count, whole = -(-len(data) // 2), len(data) // 2
    words = np.zeros(-(-count // _LINE) * _LINE, np.uint16)
    first = len(words) - count  # zeros in front add nothing
    words[first : first + whole] = data[: 2 * whole].view(">u2")
    if whole < count:
        words[-1] = int(data[-1]) << 8
    lines = words.reshape(-1, _LINE)
    of_lines, of_columns = (lines.sum(axis=axis, dtype=np.uint64) for axis in (1, 0))
    if not of_lines.any():
        return 0
    of_lines, of_columns = of_lines % _MODULUS, of_columns % _MODULUS
    behind, left = np.arange(len(lines), dtype=np.uint64)[::-1], np.arange(_LINE, 0, -1, dtype=np.uint64)
    one = int(of_lines.sum())
    two = _LINE * int(of_lines @ behind) + int(of_columns @ left)
    return (two % _MODULUS or _MODULUS) << 16 | (one % _MODULUS or _MODULUS)


def damaged(what: str) -> OSError:
    """The error for a chunk that decompresses to `what`; without errno, which marks an error of the disk."""
    return OSError(f"a compressed chunk decompresses to {what}")
