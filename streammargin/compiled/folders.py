"""Folders of compiled kernels: which ones are read, and which one is written.

Reading a kernel runs what the file holds. So no folder or file is read that more people may write than the package.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from numba.core import caching, config
from numba.misc.appdirs import AppDirs

LOG = logging.getLogger("streammargin")
HOME = Path(__file__).parent
MINE = 0o755  # the folders that are made here are written by nobody else


class Folders(NamedTuple):
    """read: in turn; written: the last of these, or None if none can be written; why: the reason then."""

    read: tuple[str, ...]
    written: str | None
    why: str


def safe(status: os.stat_result) -> bool:
    """Whether only those may write this who may write the package, or who run it."""
    package = os.stat(HOME)
    writers = status.st_mode & ~package.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_mode & stat.S_IWGRP and status.st_gid != package.st_gid:
        writers |= stat.S_IWGRP
    return status.st_uid in (0, os.geteuid(), package.st_uid) and not writers


def check(path: str | Path) -> None:
    """Raises PermissionError if others may write this file or folder, FileNotFoundError if it is not there."""
    if not safe(os.stat(path)):
        raise PermissionError(f"others than the owner of the package may write {path}")


@functools.cache
def folders(sources: str) -> Folders:
    """The folders for kernels of the source files in one folder.

    They are NUMBA_CACHE_DIR, `__pycache__` beside the sources and the user's cache, as in Numba. Folders before the
    first that can be written are read too: a cache in an image belongs to another user.
    """
    read: list[str] = []
    why = "no source files to compare them with"
    for place in _candidates(sources):
        try:
            prepare(place)
            return Folders((*read, place), place, "")
        except OSError as error:
            why = f"{place}: {error.strerror or error}"
        with contextlib.suppress(OSError):
            check(place)
            read += [place] if os.path.isdir(place) else []
    return Folders(tuple(read), None, why)


def _candidates(sources: str) -> list[str]:
    if not os.path.isdir(sources):  # in an archive: no source is there to be compared
        return []
    given = [inside(config.CACHE_DIR, sources)] if config.CACHE_DIR else []
    users = AppDirs(appname="numba", appauthor=False).user_cache_dir
    return [*given, os.path.join(sources, "__pycache__"), inside(users, sources)]


def inside(home: str, sources: str) -> str:
    """The folder in a cache for the kernels of the source files in one folder."""
    below: str = caching._CacheLocator.get_suitable_cache_subpath(os.path.join(sources, "any.py"))
    return os.path.join(home, below)


def prepare(place: str) -> None:
    """Make a folder if there is none. Raises OSError if it cannot be written, or others may."""
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, MINE)
    try:
        check(place)
    except PermissionError as error:
        LOG.info("compiled kernels are neither read from %s nor written there (%s)", place, error)
        raise
    tempfile.TemporaryFile(dir=place).close()


class Locator(caching._CacheLocator):
    """What Numba asks where the kernels of a function are."""

    folders: Folders

    stamp = ""

    def __init__(self, function: Callable, source: str) -> None:
        self.folders, self._line = folders(os.path.dirname(os.path.abspath(source))), function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable, source: str) -> Locator:
        """One for every function: kernels may be read if none can be written."""
        return cls(function, source)

    def get_cache_path(self) -> str:
        """Where kernels are written; empty if they cannot be."""
        return self.folders.written or ""

    def get_source_stamp(self) -> str:
        """A digest of these sources."""
        return self.stamp

    def get_disambiguator(self) -> str:
        """A key that differs for functions of one name in one file."""
        return str(self._line)
