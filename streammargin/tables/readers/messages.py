"""The messages of an Arrow stream or file: what each takes in memory is known before it is read and decoded.

The format: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import UsageError
from streammargin.sizes import format_size
from streammargin.tables.readers.base import Room

MARK = b"\xff\xff\xff\xff"  # in front of the length of a message; older writers have none
DICTIONARY, BATCH = 2, 3  # kinds of messages with a body
LONGEST_MESSAGE_HEAD = 1 << 31  # bytes of what describes a message

Peek = Callable[[int, int], bytes]  # bytes of the body of a message, from a place in it


class ArrowMessage(NamedTuple):
    """A message: its kind, the bytes of its body, of its dictionary the number, and the bytes in memory."""

    kind: int
    body: int
    number: int = 0
    adds: bool = False  # to a dictionary that was there before
    table: int = 0  # where its buffers are described


class Needed:
    """Adds up the memory of dictionaries. UsageError if they and one batch do not fit. name: for messages."""

    def __init__(self, name: str, room: Room) -> None:
        self.name, self.room = name, room
        self._dictionaries: dict[int, int] = {}

    def check(self, raw: bytes, message: ArrowMessage, peek: Peek) -> None:
        """raw: the description of a message with a body; peek: looks into it."""
        inflated = _inflated(raw, message.table, peek)
        if message.kind == DICTIONARY:
            before = self._dictionaries.get(message.number, 0) if message.adds else 0
            self._dictionaries[message.number] = before + max(message.body, inflated)
        batch = message.body + inflated if message.kind == BATCH else 0
        self.check_size(sum(self._dictionaries.values()) + batch)

    def check_size(self, nbytes: int) -> None:
        """The same of so many bytes."""
        needed = nbytes + nbytes // 4  # some thousand rows of it are made numbers at a time
        if needed > self.room.memory:
            raise UsageError(
                f"{self.name} has batches of {format_size(nbytes)}, and each is decoded as a whole; use "
                f"`memory={-(-needed >> 20)}M` or more, or write smaller ones: "
                "pyarrow.feather.write_feather(table, path, chunksize=65536)"
            )


def check_file(path: str, name: str, room: Room, start: int) -> None:
    """UsageError if a batch of this file does not fit into memory. start: where its first message is.

    What is damaged, Arrow says.
    """
    needed = Needed(name, room)
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        file.seek(start)
        while raw := described(file)[1]:
            message, body = parsed(raw), file.tell()
            if body + message.body > length:
                return

            def peek(place: int, size: int, body: int = body) -> bytes:
                file.seek(body + place)
                return file.read(size)

            if message.kind in (DICTIONARY, BATCH):
                needed.check(raw, message, peek)
            file.seek(body + message.body)


def described(file: Any) -> tuple[bytes, bytes]:
    """(the length of what describes the next message, this itself); the latter is empty at the end, or for none."""
    head = file.read(4)
    head += file.read(4) if head == MARK else b""
    length = int.from_bytes(head[-4:], "little")
    return head, file.read(length) if len(head) >= 4 and 0 < length < LONGEST_MESSAGE_HEAD else b""


def parsed(raw: bytes) -> ArrowMessage:
    """The message that these bytes (a Flatbuffer) describe; of kind 0 if they describe none."""
    try:
        root = _number(raw, 0, "<I")
        kind, body = _field(raw, root, 1, "<B"), max(0, _field(raw, root, 3, "<q"))
        table = _reference(raw, root, 2)
        if kind == DICTIONARY:
            number, adds = _field(raw, table, 0, "<q"), bool(_field(raw, table, 2, "<B"))
            return ArrowMessage(kind, body, number, adds, _reference(raw, table, 1))
        return ArrowMessage(kind, body, table=table if kind == BATCH else 0)
    except (struct.error, ValueError):
        return ArrowMessage(0, 0)


def _inflated(raw: bytes, table: int, peek: Peek) -> int:
    """Bytes of the buffers of a batch that is compressed, each of which begins with its size; 0 if it is not."""
    try:
        vector = _reference(raw, table, 2) if table and _reference(raw, table, 3) else 0
        count = _number(raw, vector, "<I") if vector else 0
        buffers = np.frombuffer(raw, "<i8", 2 * count, vector + 4).reshape(-1, 2)
        total = 0
        for place, length in buffers[buffers[:, 1] > 8].tolist():
            size = int.from_bytes(peek(place, 8), "little", signed=True)
            total += length if size < 0 else size  # -1: not compressed
        return total
    except (struct.error, ValueError):
        return 0  # damaged, which Arrow says


def _number(raw: bytes, place: int, kind: str) -> int:
    return int(struct.unpack_from(kind, raw, place)[0])


def _place(raw: bytes, table: int, field: int) -> int:
    """Where a field of a table is; 0 if it has the default."""
    described = table - _number(raw, table, "<i")
    if described < 0:
        raise ValueError("no table")
    entry = 4 + 2 * field
    offset = _number(raw, described + entry, "<H") if entry < _number(raw, described, "<H") else 0
    return table + offset if offset else 0


def _field(raw: bytes, table: int, field: int, kind: str) -> int:
    place = _place(raw, table, field)
    return _number(raw, place, kind) if place else 0


def _reference(raw: bytes, table: int, field: int) -> int:
    """Where what a field refers to is; 0 for nothing."""
    place = _place(raw, table, field)
    return place + _number(raw, place, "<I") if place else 0


class Checked(io.RawIOBase):
    """A stream of messages as a file for Arrow: each is checked before Arrow has it. Raises UsageError."""

    def __init__(self, file: Any, name: str, room: Room) -> None:
        self.file, self._needed = file, Needed(name, room)
        self._parts: list[memoryview] = []

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:
        """At most this many bytes."""
        if not self._parts:
            self._parts = [memoryview(part) for part in self._next() if part]
        if not self._parts:
            return b""
        part = self._parts.pop(0)
        if 0 <= size < len(part):
            self._parts.insert(0, part[size:])
            part = part[:size]
        return part

    def _next(self) -> list[bytes]:
        """The bytes of the next message."""
        head, raw = described(self.file)
        message = parsed(raw)
        if message.kind not in (DICTIONARY, BATCH):
            return [head, raw]
        self._needed.check_size(message.body)
        body = self.file.read(message.body)
        self._needed.check(raw, message, lambda place, size: body[place : place + size])
        return [head, raw, body]
