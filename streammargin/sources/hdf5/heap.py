"""Read strings of variable length without HDF5, which hangs on some damaged heaps.

Such strings are stored as references: length, address of a collection, index of an object in it. See the HDF5 File
Format Specification 3.0: IV.A.1 (object headers), III.E (global heap), IV.A.2.i and m (layouts, attributes).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

import h5py

_LAYOUT, _ATTRIBUTE, _CONTINUATION = 0x08, 0x0C, 0x10  # message types of an object header
_SHARED, _VIRTUAL = 2, b"\3"  # a message flag, a layout class
_HELD = 64  # collections in the cache: neighbouring strings share them


class Heap:
    """The collections of a file: (length, address, number) -> bytes. ValueError if they are damaged."""

    def __init__(self, file: h5py.File) -> None:
        if file.id.get_create_plist().get_sizes() != (8, 8) or file.driver != "sec2":
            raise ValueError("its addresses are not of 8 bytes; copy it with h5repack")
        self._file, self._base = file, file.userblock_size
        self._held: dict[int, dict[int, bytes]] = {}

    def bytes_at(self, address: int, size: int) -> bytes:
        """Read bytes of the file."""
        if address + self._base + size > os.fstat(self._file.id.get_vfd_handle()).st_size:
            raise ValueError("it ends early")
        return os.pread(self._file.id.get_vfd_handle(), size, address + self._base)

    def objects(self, address: int) -> dict[int, bytes]:
        """The objects of a collection by index."""
        if address not in self._held:
            if len(self._held) == _HELD:
                self._held.clear()
            self._held[address] = self._collection(address)
        return self._held[address]

    def _collection(self, address: int) -> dict[int, bytes]:
        mark, version, size = struct.unpack("<4sB3xQ", self.bytes_at(address, 16))
        if mark != b"GCOL" or version != 1 or size < 16:
            raise ValueError("a collection of strings is damaged")
        raw = self.bytes_at(address, size)
        found: dict[int, bytes] = {}
        place = 16
        while place + 16 <= size:
            number, length = struct.unpack_from("<H6xQ", raw, place)
            if number == 0:  # free space, with its header
                if length < 16 or place + length > size:
                    raise ValueError("a collection of strings is damaged")
                place += length
                continue
            if number in found or place + 16 + length > size:
                raise ValueError("a collection of strings is damaged")
            found[number] = raw[place + 16 : place + 16 + length]
            place += 16 + -(-length // 8) * 8
        return found

    def text(self, reference: tuple[int, int, int]) -> str:
        """The string of a reference, up to its first NUL."""
        length, address, number = reference
        if address == 0 and length == 0:
            return ""
        found = self.objects(address).get(number)
        if found is None or len(found) != length:
            raise ValueError("a reference to a string is wrong")
        return found.split(b"\0", 1)[0].decode("utf-8")


def is_virtual(file: h5py.File, address: int) -> bool:
    """Whether the object at this address is a virtual dataset: HDF5 dies of opening some."""
    messages = _messages(Heap(file), address)
    return any(kind == _LAYOUT and body[:1] >= b"\3" and body[1:2] == _VIRTUAL for kind, body in messages)


def text_attribute(node: h5py.Group | h5py.Dataset, name: str) -> str:
    """An attribute that is one string of variable length. ValueError if it is damaged or stored elsewhere."""
    heap = Heap(node.file)
    for kind, body in _messages(heap, h5py.h5o.get_info(node.id).addr):
        if kind != _ATTRIBUTE:
            continue
        version, *sizes = _fields("<BxHHH", body, 0)
        place = 9 if version == 3 else 8
        if body[place : place + sizes[0]].rstrip(b"\0") != name.encode():
            continue
        for size in sizes:  # name, type, shape
            place += -(-size // 8) * 8 if version == 1 else size
        return heap.text(_fields("<IQI", body, place))
    raise ValueError(f"its attribute {name} is stored in a way that cannot be checked")


def _fields(form: str, body: bytes, place: int) -> Any:
    if place + struct.calcsize(form) > len(body):
        raise ValueError("a message of its header ends early")
    return struct.unpack_from(form, body, place)


def _messages(heap: Heap, address: int) -> Iterator[tuple[int, bytes]]:
    """(kind, body) of the messages in the header of an object."""
    start = heap.bytes_at(address, 12)
    if start[:4] == b"OHDR":
        flags = start[5]
        place = address + 6 + 16 * (flags >> 5 & 1) + 4 * (flags >> 4 & 1)
        width = 1 << (flags & 3)
        blocks = [(place + width, int.from_bytes(heap.bytes_at(place, width), "little"))]
        form, skipped, ends = struct.Struct("<BHB"), 2 * (flags >> 2 & 1), 4  # bytes of signature and checksum
    else:
        blocks = [(address + 16, int.from_bytes(start[8:12], "little"))]
        form, skipped, ends = struct.Struct("<HHB3x"), 0, 0
    for number, (place, size) in enumerate(blocks):
        if number > 1000:
            raise ValueError("its header has no end")
        raw = heap.bytes_at(place, size)
        at = 0
        while at + form.size + skipped <= size:
            kind, length, flags = form.unpack_from(raw, at)
            at += form.size + skipped
            body = raw[at : at + length]
            at += length
            if kind == _CONTINUATION and len(body) >= 16:
                offset, extent = struct.unpack_from("<QQ", body)
                blocks.append((offset + ends, max(0, extent - 2 * ends)))
            elif not flags & _SHARED:
                yield kind, body
