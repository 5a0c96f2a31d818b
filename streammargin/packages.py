"""Installed packages: entry points, which add words and file formats, and filters of HDF5."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from streammargin.errors import UsageError
from streammargin.wording import one_line


def points_of(group: str) -> Sequence[metadata.EntryPoint]:
    """The entry points of this group, looked for again only if a folder of packages has changed: it takes 25 ms."""
    return _points(group, tuple((place, _changed(place)) for place in sys.path))


@functools.lru_cache(maxsize=8)
def _points(group: str, places: object) -> Sequence[metadata.EntryPoint]:
    return tuple(metadata.entry_points(group=group))


def _changed(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


def loaded(point: metadata.EntryPoint) -> Any:
    """The object that an entry point names. Raises UsageError if importing it fails."""
    try:
        return point.load()
    except Exception as error:
        raise UsageError(
            f"the entry point {point.name} of {point.group} cannot be loaded: {point.value} raises "
            f"{type(error).__name__} ({one_line(str(error))}); correct its package, or uninstall it"
        ) from error


def register_filters() -> None:
    """Register the filters of hdf5plugin (zstd, blosc), if it is installed.

    It swallows the exception of a signal and logs its traceback. Here the exception is raised.
    """
    swallowed: list[BaseException] = []

    def passes(record: logging.LogRecord) -> bool:
        error = sys.exc_info()[1]
        if not isinstance(error, KeyboardInterrupt):
            return True
        swallowed.append(error)
        return False

    log = logging.getLogger("hdf5plugin._utils")
    log.addFilter(passes)
    try:
        with contextlib.suppress(ImportError):
            importlib.import_module("hdf5plugin")
    finally:
        log.removeFilter(passes)
    if swallowed:
        raise swallowed[0]
