"""Writing outputs so that there is either the old file or the whole new one, never half of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from streammargin.errors import OutputError, ReadWriteError


def check_output(path: str, force: bool = False) -> None:
    """Raise OutputError unless `path` can be created (or replaced, with force). Writes nothing."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise OutputError(f"{path} is a directory; name a file")
    if os.path.exists(path) and not force:
        raise OutputError(f"{path} exists; use --force to replace it, or -o to name another file")
    if not os.path.isdir(folder):
        raise OutputError(f"cannot create {path}: there is no directory {folder}")
    try:  # asked by doing: the superuser passes os.access on a read-only file system
        descriptor, name = tempfile.mkstemp(prefix=".streammargin-", dir=folder)
    except OSError as error:
        raise OutputError(f"cannot create {path}: {error.strerror}") from error
    os.close(descriptor)
    os.unlink(name)


@contextlib.contextmanager
def replacing(path: str, force: bool = False) -> Iterator[str]:
    """A temporary name beside `path`; renamed to it, on disk for good, when the block ends well.

    Raises OutputError where the file cannot be created, ReadWriteError when the disk fails.
    """
    check_output(path, force)
    folder, base = os.path.split(os.path.abspath(path))
    descriptor, name = tempfile.mkstemp(prefix=f".{base}.", suffix=".part", dir=folder)
    os.close(descriptor)
    try:
        try:
            yield name
            with open(name, "rb+") as file:
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, path)
        except OSError as error:
            if isinstance(error, (OutputError, ReadWriteError)):
                raise
            raise ReadWriteError(f"cannot write {path}: {error.strerror or error}; free some space") from error
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
