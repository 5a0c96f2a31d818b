"""What a format of files that are read front to back says of itself: its module lists it in FORMATS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CSV, PARQUET, ARROW, STREAM = "csv", "parquet", "arrow", "arrow stream"
SVMLIGHT, MARKET, NPY, NPZ, TENSORS, ZARR = "svmlight", "mtx", "npy", "npz", "safetensors", "zarr"


@dataclass(frozen=True)
class FileFormat:
    """A format of files or folders.

    `opened`    (path, How) -> Ordered for rows of numbers, (path, Expected, Room) -> Reader for a table.
    `text`      it gets a Text in place of the path, which may be compressed, or a pipe. A table of a pipe gets
                `once=True`, too.
    `table`     whether it has columns with names, which may hold words and gaps.
    `starts`    first bytes that tell it.
    `sniff`     whether these first bytes do, if no format has such starts.
    `inside`    whether a folder is one of these.
    `suffixes`  endings of names in a folder. Text is believed to be what they say elsewhere, too.
    `called`    what messages call the files of a folder, "" if a folder has no such files.
    """

    name: str
    opened: Callable[..., Any]
    text: bool = False
    table: bool = False
    starts: tuple[bytes, ...] = ()
    sniff: Callable[[bytes], bool] = lambda start: False
    inside: Callable[[str], object] = lambda folder: False
    suffixes: tuple[str, ...] = ()
    called: str = ""
