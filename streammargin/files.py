"""Check input files, and write output files atomically."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import re
import secrets
import shlex
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from streammargin.errors import DataError, InputMissingError, OutputError, ReadWriteError, StreamMarginError, UsageError
from streammargin.wording import shown


def as_path(path: Any, what: str = "a path") -> str:
    """A path as str. Raises UsageError if no file can have it; what: how the message names it."""
    try:
        text = os.fspath(path)
        if isinstance(text, str) and text and b"\0" not in os.fsencode(text):
            return text
    except (TypeError, UnicodeError):
        pass
    raise UsageError(f"{what} must be text or os.PathLike, without NUL, not {shown(path)}")


STANDARD_INPUT = "-"
_unfinished: dict[str, str] = {}  # hidden files and folders of this process, with the outputs that they are for
_inputs: dict[str, dict[str, tuple[int, int] | None]] = {}  # of an output: the inputs it must not be, as they were
_VERIFIED = 64  # bytes of memory that a number of a model takes in `verify`
_HIDDEN = r"-(\d+)-[0-9a-f]{16}(\.part)?"  # the end of a hidden name: process and random number


def check_input(path: str, kind: str = "file") -> None:
    """Raise InputMissingError unless `path` is a regular file: a pipe may block, and cannot be read twice."""
    as_path(path)
    if path == STANDARD_INPUT and kind == "file" and not os.path.exists(path):
        raise InputMissingError(
            "standard input, -, can be read once only; write it to a file first, with: streammargin-data convert "
            "/dev/stdin OUT.h5 (in Python, sm.write_hdf5 writes batches)"
        )
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        raise no_file(path, kind) from error
    except OSError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    if stat.S_ISDIR(mode):
        raise InputMissingError(f"{path} is a directory; name the {kind} in it")
    if not stat.S_ISREG(mode):
        raise InputMissingError(f"{path} is a device, a pipe or a socket; write it to a regular {kind} and name that")


_FETCHED = {  # how files of a kind of URL are copied
    **dict.fromkeys(("s3", "s3a", "s3n"), "aws s3 cp {} ."),
    **dict.fromkeys(("gs", "gcs"), "gcloud storage cp {} ."),
    **dict.fromkeys(("http", "https", "ftp"), "curl -LO {}"),
    **dict.fromkeys(("hdfs", "webhdfs"), "hdfs dfs -get {} ."),
    **dict.fromkeys(("az", "abfs", "abfss", "adl", "wasb", "wasbs"), "azcopy copy {} ."),
}


def is_url(path: str) -> bool:
    """Whether this is the address of a file elsewhere; of a pathlib.Path one of two slashes is left."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)", path)
    return found is not None and (found[1].lower() in _FETCHED or len(found[2]) > 1)


def no_file(path: str, kind: str = "file") -> InputMissingError:
    """The error for an input that does not exist."""
    if is_url(path):
        scheme = path.partition(":")[0].lower()
        url = re.sub(":/+", "://", path, count=1)
        how = f"with: {_FETCHED[scheme].format(shlex.quote(url))}" if scheme in _FETCHED else "to a disk"
        how = f"name it by its path, {path[7:]}" if path.startswith("file://") else f"copy it first, {how}"
        return InputMissingError(f"{path} is an address, and only files on a disk are read; {how}")
    link = f" (a link to {os.readlink(path)})" if os.path.islink(path) else ""
    return InputMissingError(f"{path}: no such {kind}{link}")


@contextlib.contextmanager
def reading(path: str, fault: str, hint: str) -> Iterator[None]:
    """Turn any exception on the content of the file at `path` into a DataError: libraries raise many kinds."""
    try:
        yield
    except (StreamMarginError, MemoryError):
        raise
    except Exception as error:
        why = (short_reason(error).splitlines() or [""])[0][:120] or type(error).__name__
        raise DataError(f"{path} {fault} ({why}); {hint}") from error


def declared(archive: zipfile.ZipFile, name: str) -> tuple[int, int]:
    """(bytes, numbers) of an array of a model file, as archive and header say. ValueError if these differ, KeyError."""
    from numpy.lib import format

    with archive.open(name) as stream:
        if format.read_magic(stream) != (1, 0):  # the others have headers of any length
            raise ValueError(f"{name} is in another format")
        shape, _, dtype = format.read_array_header_1_0(stream)
        stored, count = archive.getinfo(name).file_size - stream.tell(), math.prod(shape)
    if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0 or count * dtype.itemsize != stored:
        raise ValueError(f"{name} is not an array of shape {shape}")
    return stored, count


def held_and_taken(path: str) -> tuple[int, int]:
    """(bytes that a model file holds, those of it and several copies of its arrays in float64); `declared` has more."""
    with zipfile.ZipFile(path) as archive:
        sizes = [declared(archive, name) for name in archive.namelist()]
    held = sum(stored for stored, _ in sizes)
    return held, held + _VERIFIED * sum(count for _, count in sizes)


def check_arrays(path: str, memory: float) -> None:
    """Check that a model file and several copies of its arrays in float64 fit into the memory, before they are read.

    Raises UsageError, and ValueError if a declared size is not that of what is stored.
    """
    held, taken = held_and_taken(path)
    if taken > memory:
        raise UsageError(f"{path} holds {(held >> 20) + 1}M; raise `memory` to ten times that")


def check_output(path: str, force: bool = False) -> None:
    """Raise OutputError unless `path` can be created (or replaced, with force). Leaves nothing behind."""
    if path == STANDARD_INPUT:
        raise UsageError("the output cannot be standard output, -; name a file (./- is a file named -)")
    if not path or path.endswith(os.sep) or os.path.isdir(path):
        raise OutputError(f"{path or 'an empty name'} is a directory or not a name; name a file")
    if is_url(path) and not os.path.isdir(os.path.dirname(path)):
        raise OutputError(f"{path} is an address, and only files on a disk are written; name a file, and copy it after")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OutputError(f"{path} is a device or a pipe, which a file cannot replace; name a file")
    if os.path.lexists(path) and not force:
        raise OutputError(f"{path} exists; use `force=True` to replace it, or name another output")
    target = _place(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise OutputError(f"cannot create {path}: there is no directory {folder}")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(target)  # asks the file system about the length of the name
        with _temporary(path):  # try it: for the superuser os.access is true even on a read-only file system
            pass
    except OSError as error:
        raise OutputError(f"cannot create {path}: {error.strerror}") from error


def check_apart(outputs: Mapping[str, str | None], inputs: Sequence[str | None]) -> None:
    """Raise UsageError if an output (description -> path) is one of the inputs or another output.

    The inputs are kept, and compared again just before the output is written (`check_still_apart`).
    """
    read = {other: _identity(other) for other in inputs if other is not None}
    seen: dict[str, str] = {}
    for what, path in outputs.items():
        if path is None:
            continue
        if (other := _among(path, read)) is not None:
            raise UsageError(f"{what} {path} is an input as well ({other}); name another output")
        if (other := _among(path, {made: _identity(made) for made in seen})) is not None:
            raise UsageError(f"{what} {path} and {seen[other]} are the same file; name two files")
        seen[path] = what
    for path in seen:
        _inputs.setdefault(os.path.abspath(path), {}).update(read)


def check_still_apart(path: str, handle: int | None = None) -> None:
    """Raise OutputError if an output has meanwhile become an input that `check_apart` compared it with.

    handle: of the output, if it is open. An input counts under its name, and as the file that it was.
    """
    then, file = _inputs.get(os.path.abspath(path), {}), path if handle is None else handle
    found = _among(file, then) or _among(file, {other: _identity(other) for other in then})
    if found is not None:
        raise OutputError(f"{path} has become a file that is read ({found}); name another output")


def _among(file: str | int, read: Mapping[str, tuple[int, int] | None]) -> str | None:
    """The input that a path, perhaps of no file yet, or a descriptor is; None if it is none. read: as `_identity`."""
    here = _identity(file)
    if here is not None:
        return next((other for other, then in read.items() if then == here), None)
    place = None if isinstance(file, int) else os.path.realpath(file)
    return next((other for other, then in read.items() if then is None and os.path.realpath(other) == place), None)


def _identity(file: str | int) -> tuple[int, int] | None:
    """Device and inode of a path, links followed, or of a descriptor; None if there is none."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def status_of(path: str) -> list[int]:
    """Device, inode, size, and times in nanoseconds of the last write and the last change; empty without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def twice_read(paths: Sequence[str]) -> tuple[str, str] | None:
    """The first two of these paths that are the same file; None if there are none."""
    seen: dict[object, str] = {}
    for path in paths:
        here = _identity(path)
        if here in seen:
            return seen[here], path
        seen[here] = path
    return None


def found_in(paths: Sequence[str], others: Sequence[str]) -> str | None:
    """The first of these paths that is one of the other files; None if none is."""
    there = {_identity(path) for path in others} - {None}
    return next((path for path in paths if _identity(path) in there), None)


def short_reason(error: BaseException) -> str:
    """The reason of an error, without the addresses and descriptors that HDF5 adds."""
    text = getattr(error, "strerror", None) or str(error)
    _, found, rest = text.partition("error message = '")
    return rest.split("'")[0] if found else text


def cannot_write(path: str, error: Exception) -> ReadWriteError:
    """The error of a disk that is full or fails. It names the output, or the folder, that a hidden file is for."""
    while hidden := [name for name in _unfinished if f"{path}/".startswith(f"{name}/")]:
        path = _unfinished[hidden[0]]
    return ReadWriteError(f"cannot write {path}: {short_reason(error)}; free some space")


@contextlib.contextmanager
def writes(path: str, kinds: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Failures of the disk, which are exceptions of these kinds, as ReadWriteError that names the output."""
    try:
        yield
    except kinds as error:
        if isinstance(error, StreamMarginError):
            raise
        raise cannot_write(path, error) from error


def _place(path: str) -> str:
    """The absolute path of the output itself: links are followed up to its folder, and a link of its name is not."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _prefix(path: str) -> str:
    """The beginning of the names of hidden files and folders that this machine makes for the output `path`."""
    parts = (os.path.basename(path), platform.node())
    return ".streammargin-" + "-".join(hashlib.sha256(os.fsencode(part)).hexdigest()[:8] for part in parts)


def _unseen(path: str, suffix: str = "") -> str:
    """An unused hidden name beside the output `path`: .streammargin-OUTPUT-MACHINE-PROCESS-RANDOM.

    It is recorded in `_unfinished` before the file exists, so that a signal at any moment leaves no file. Only a killed
    process leaves files; those of dead processes are removed here.
    """
    folder, prefix = os.path.dirname(_place(path)), _prefix(path)
    if not os.path.isdir(folder):
        raise OutputError(f"cannot create {path}: there is no directory {folder}")
    for entry in os.listdir(folder):
        left = re.fullmatch(prefix + _HIDDEN, entry)
        if left is not None and not _alive(left[1]):
            _remove(os.path.join(folder, entry))
    name = os.path.join(folder, f"{prefix}-{os.getpid()}-{secrets.token_hex(8)}{suffix}")
    _unfinished[name] = path
    return name


def remove_unfinished() -> None:
    """Remove this process's hidden files and folders before it exits without running `finally` blocks."""
    for name in list(_unfinished):
        with contextlib.suppress(OSError):
            _remove(name)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):  # another user's process; or not a number, so not our file
        pass
    return True


@contextlib.contextmanager
def _hidden(path: str, suffix: str, make: Callable[[str], None]) -> Iterator[str]:
    """An output under a hidden name beside its own; removed at the end unless it was renamed."""
    name = _unseen(path, suffix)
    try:
        try:
            make(name)
            yield name
        finally:
            _remove(name)
    finally:  # a signal may have interrupted the first attempt
        _remove(name)
        _unfinished.pop(name, None)


def _temporary(path: str) -> contextlib.AbstractContextManager[str]:
    """A new empty file with a short name beside the output, with the permissions of any new file."""
    return _hidden(path, ".part", lambda name: os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)))


def make_folder(path: str) -> None:
    """Make a folder, and those around it, unless it is there. Raises OutputError."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {path}: {error.strerror}; name another one") from error


def temporary_folder(near: str = "") -> contextlib.AbstractContextManager[str]:
    """A hidden folder beside the output `near`, in the folder `near/`, or the system's; removed with its content."""
    return _hidden(near or os.path.join(tempfile.gettempdir(), ""), "", lambda name: os.mkdir(name, 0o700))


def _remove(name: str) -> None:
    if os.path.isdir(name) and not os.path.islink(name):
        shutil.rmtree(name, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _rename(name: str, target: str, force: bool) -> None:
    """Rename the file; without force, FileExistsError if the target exists."""
    if not force:
        try:
            os.link(name, target)  # unlike os.replace, os.link never replaces a file
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.close(os.open(target, os.O_CREAT | os.O_EXCL))
    os.replace(name, target)


@contextlib.contextmanager
def replacing(path: str, force: bool = False) -> Iterator[str]:
    """A temporary file beside `path`; flushed to disk and renamed to it when the block ends without an error.

    A link of that name is replaced itself, and the file that it leads to stays. Raises OutputError if the file
    cannot be created, is now an input or, without force, now exists; ReadWriteError when the disk fails.
    """
    check_output(path, force)
    target = _place(path)
    folder = os.path.dirname(target)
    with _temporary(path) as name:
        with writes(path):
            try:
                yield name
                with open(name, "rb+") as file:
                    os.fsync(file.fileno())
                check_still_apart(path)
                _rename(name, target, force)
            except FileExistsError as error:
                raise OutputError(
                    f"{path} appeared while it was written; use `force=True`, or name another output"
                ) from error
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
