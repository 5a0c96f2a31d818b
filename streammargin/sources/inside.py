"""The files below a folder: one list for who reads them, and for what must not be written."""

from __future__ import annotations

import os
import stat
from collections import deque
from typing import NamedTuple

from streammargin.errors import InputMissingError, StreamMarginError

Place = tuple[int, int]  # device and inode
AWAY = "move it elsewhere, or begin its name with _ or ."
BESIDE = ("dataset_info.json", "state.json")  # what save_to_disk of the package datasets writes beside its Arrow files


class Inside(NamedTuple):
    """files: by their paths, each once; again: paths of files that are there already, by a link; faults: in order."""

    files: list[str]
    again: list[str]
    faults: list[StreamMarginError]


def inside(folder: str) -> Inside:
    """What is below a folder, links followed, but for BESIDE and names that begin with . or _, as for Arrow and Spark.

    _key=value is a key. A file has the name by which it is reached without a link, if there is one; a folder counts
    once. What cannot be read is a fault; other names are listed all the same.
    """
    found: dict[Place | str, str] = {}
    again, faults = [], []
    todo, links = deque([folder]), deque[str]()
    seen: set[Place] = set()  # folders
    while todo or links:
        path = todo.popleft() if todo else links.popleft()
        try:
            status = _status(path)
            here = status.st_dev, status.st_ino
            if not stat.S_ISDIR(status.st_mode):
                if not stat.S_ISREG(status.st_mode):
                    raise InputMissingError(f"{path} is a device, a pipe or a socket, in a folder that is read; {AWAY}")
                if found.setdefault(here, path) != path:
                    again.append(path)
                continue
            if here not in seen:
                seen.add(here)
                for name in _names(path):
                    entry = os.path.join(path, name)
                    (links if os.path.islink(entry) else todo).append(entry)
        except StreamMarginError as fault:
            faults.append(fault)
            found[path] = path
    return Inside(sorted(found.values()), sorted(again), faults)


def _status(path: str) -> os.stat_result:
    """The status of what a path leads to. Raises InputMissingError."""
    try:
        return os.stat(path)
    except FileNotFoundError as error:
        what = f"is a link to {os.readlink(path)}, which is not there" if os.path.islink(path) else "is no longer there"
        raise InputMissingError(f"{path} {what}; restore it, or remove {path}") from error
    except OSError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror}); {AWAY}") from error


def _names(folder: str) -> list[str]:
    """The names in a folder that count, in order. Raises InputMissingError."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputMissingError(f"{folder} cannot be read ({error.strerror}); {AWAY}") from error
    hidden = [name.startswith(".") or (name.startswith("_") and "=" not in name) for name in names]
    return [name for name, left_out in zip(names, hidden, strict=True) if not (left_out or name in BESIDE)]
