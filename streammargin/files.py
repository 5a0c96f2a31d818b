"""Inputs that can be read again and again, and outputs of which there is the old file or the whole new one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streammargin.errors import DataError, InputMissingError, OutputError, ReadWriteError, StreamMarginError, UsageError
from streammargin.wording import shown


def as_path(path: Any, what: str = "a path") -> str:
    """The text of a path. Raises UsageError, which says what it is, where it is none that a system can have."""
    try:
        text = os.fspath(path)
        if isinstance(text, str) and text and b"\0" not in os.fsencode(text):
            return text
    except (TypeError, UnicodeError):
        pass
    raise UsageError(f"{what} must be text or os.PathLike, without NUL, not {shown(path)}")


_unfinished: set[str] = set()  # hidden files and folders that this process has, or is about to make


def check_input(path: str, kind: str = "file") -> None:
    """Raise InputMissingError unless `path` is a regular file: a pipe would be waited for and cannot be read twice."""
    as_path(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as error:
        link = f" (a link to {os.readlink(path)})" if os.path.islink(path) else ""
        raise InputMissingError(f"{path}: no such {kind}{link}") from error
    except OSError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    if stat.S_ISDIR(mode):
        raise InputMissingError(f"{path} is a directory; name the {kind} in it")
    if not stat.S_ISREG(mode):
        raise InputMissingError(f"{path} is a device, a pipe or a socket; write it to a regular {kind} and name that")


@contextlib.contextmanager
def reading(path: str, fault: str, mend: str) -> Iterator[None]:
    """DataError for whatever fails on what the file at `path` holds: libraries fail in many ways on bytes of others."""
    try:
        yield
    except StreamMarginError:
        raise
    except Exception as error:
        raise DataError(f"{path} {fault} ({short_reason(error)}); {mend}") from error


def unpacked_bytes(path: str) -> int:
    """Bytes of what a zip archive holds, by what it says. Raises zipfile.BadZipFile."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def check_output(path: str, force: bool = False) -> None:
    """Raise OutputError unless `path` can be created (or replaced, with force). Leaves nothing behind."""
    if path == "-":
        raise UsageError("- is no file, and what is written here is no stream; name a file (./- is one of that name)")
    if not path or path.endswith(os.sep) or os.path.isdir(path):
        raise OutputError(f"{path or 'an empty name'} is a directory or no name; name a file")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OutputError(f"{path} is a device or a pipe, which a file cannot replace; name a file")
    if os.path.exists(path) and not force:
        raise OutputError(f"{path} exists; use `force=True` to replace it, or name another output")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise OutputError(f"cannot create {path}: there is no directory {folder}")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(os.path.realpath(path))  # asks the file system about the length of the name
        with _temporary(path):  # asked by doing: the superuser passes os.access on a read-only file system
            pass
    except OSError as error:
        raise OutputError(f"cannot create {path}: {error.strerror}") from error


def check_apart(outputs: Mapping[str, str | None], inputs: Sequence[str | None]) -> None:
    """Raise UsageError where an output (what it is -> its path) is one of the inputs or another output."""
    seen: dict[str, str] = {}
    for what, path in outputs.items():
        if path is None:
            continue
        for other in inputs:
            if other is not None and same_file(path, other):
                raise UsageError(f"{what} {path} is an input as well ({other}); name another output")
        for other, before in seen.items():
            if same_file(path, before):
                raise UsageError(f"{what} {path} and {other} are the same file; name two files")
        seen[what] = path


def same_file(one: str, other: str) -> bool:
    """Whether two names, of files that may not exist yet, lead to one file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def short_reason(error: BaseException) -> str:
    """What went wrong with a file, without the addresses and descriptors that HDF5 adds."""
    text = getattr(error, "strerror", None) or str(error)
    _, found, rest = text.partition("error message = '")
    return rest.split("'")[0] if found else text


def _prefix(path: str) -> str:
    """How the hidden files and folders begin that this machine makes for the output `path`."""
    parts = (os.path.basename(os.path.realpath(path)), platform.node())
    return ".streammargin-" + "-".join(hashlib.sha256(os.fsencode(part)).hexdigest()[:8] for part in parts)


def _unseen(path: str, suffix: str = "") -> str:
    """A hidden name beside the output `path` that no file has: .streammargin-OUTPUT-MACHINE-PROCESS-RANDOM.

    Chosen and noted before the file exists: a signal at any moment leaves none. Only what kills outright does, and what
    a process left that is no more is removed now.
    """
    folder, prefix = os.path.dirname(os.path.realpath(path)), _prefix(path)
    for entry in os.listdir(folder):
        if entry.startswith(prefix) and not _alive(entry[len(prefix) :].split("-")[1]):
            _remove(os.path.join(folder, entry))
    name = os.path.join(folder, f"{prefix}-{os.getpid()}-{secrets.token_hex(8)}{suffix}")
    _unfinished.add(name)
    return name


def remove_unfinished() -> None:
    """Remove the hidden files and folders of this process, which is about to end without unwinding."""
    for name in list(_unfinished):
        with contextlib.suppress(OSError):
            _remove(name)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):  # another user's; or no number, and none of our files
        pass
    return True


@contextlib.contextmanager
def _temporary(path: str) -> Iterator[str]:
    """A new empty file with a short name beside the output; gone at the end unless it was renamed."""
    name = _unseen(path, ".part")
    try:
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # the rights of any new file
            yield name
        finally:
            _remove(name)
    finally:  # the one signal that raises may have struck in the first attempt
        _remove(name)
        _unfinished.discard(name)


@contextlib.contextmanager
def temporary_folder(near: str) -> Iterator[str]:
    """An unseen folder beside the output `near`; gone at the end, with all that is in it."""
    name = _unseen(near)
    try:
        try:
            os.mkdir(name, 0o700)
            yield name
        finally:
            _remove(name)
    finally:
        _remove(name)
        _unfinished.discard(name)


def _remove(name: str) -> None:
    if os.path.isdir(name):
        shutil.rmtree(name, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _rename(name: str, target: str, force: bool) -> None:
    """Give the file its name; without force FileExistsError where another one has it by now."""
    if not force:
        try:
            os.link(name, target)  # unlike a renaming, it never replaces
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.close(os.open(target, os.O_CREAT | os.O_EXCL))
    os.replace(name, target)


@contextlib.contextmanager
def replacing(path: str, force: bool = False) -> Iterator[str]:
    """A temporary name beside `path`; renamed to it, on disk for good, when the block ends well.

    Raises OutputError where the file cannot be created or, without force, appeared in the meantime; ReadWriteError
    when the disk fails.
    """
    check_output(path, force)
    target = os.path.realpath(path)  # a link stays a link
    folder = os.path.dirname(target)
    with _temporary(path) as name:
        try:
            yield name
            with open(name, "rb+") as file:
                os.fsync(file.fileno())
            _rename(name, target, force)
        except FileExistsError as error:
            raise OutputError(
                f"{path} appeared while it was written; use `force=True`, or name another output"
            ) from error
        except OSError as error:
            if isinstance(error, StreamMarginError):
                raise
            raise ReadWriteError(f"cannot write {path}: {short_reason(error)}; free some space") from error
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
