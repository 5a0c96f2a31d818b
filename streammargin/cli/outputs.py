"""The list, in a directory of checkpoints, of the files that its trainings wrote."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os

from streammargin.errors import OutputError
from streammargin.files import replacing

NAME = "outputs.json"


class Outputs:
    """Names and digests of the models and logs that trainings with one directory wrote. They may replace these.

    folder: None for a training without one, which may replace nothing. Raises OutputError if the list cannot be read.
    """

    def __init__(self, folder: str | None) -> None:
        self.path = None if folder is None else os.path.join(folder, NAME)
        self.known: dict[str, list] = {}
        if self.path is not None and os.path.exists(self.path):
            try:
                with open(self.path, encoding="utf-8") as file:
                    self.known = {path: _entry(*entry) for path, entry in json.load(file).items()}
            except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
                raise OutputError(
                    f"{self.path} is not a list of outputs of a training; move it, or name another directory"
                ) from error

    def wrote(self, path: str) -> bool:
        """Whether the file is the one that was recorded, or an empty one."""
        try:
            if os.path.getsize(path) == 0:
                return self.path is not None
            digest, size = self.known[os.path.realpath(path)]
            return _digest(path, size) == digest
        except (OSError, KeyError, TypeError, ValueError):
            return False

    def record(self, path: str, written: str, size: int | None = None) -> None:
        """Record that the file `path` has, or will soon have, the first `size` bytes of the file `written`."""
        self._remember(path, _digest(written, size), size)

    def record_start(self, path: str, start: bytes) -> None:
        """Record that the file `path` begins with these bytes."""
        self._remember(path, hashlib.blake2b(start, digest_size=16).hexdigest(), len(start))

    def _remember(self, path: str, digest: str, size: int | None) -> None:
        if self.path is None:
            return
        self.known[os.path.realpath(path)] = [digest, size]
        with contextlib.suppress(OSError):  # a failure here must not cost the model or the log
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with replacing(self.path, force=True) as name, open(name, "w", encoding="utf-8") as file:
                json.dump(self.known, file)


def _entry(digest: str, size: int | None) -> list:
    if not isinstance(digest, str) or not isinstance(size, (int, type(None))):
        raise TypeError
    return [digest, size]


def _digest(path: str, size: int | None) -> str:
    """The digest of the first `size` bytes of a file; None: of all bytes."""
    digest = hashlib.blake2b(digest_size=16)
    left = os.path.getsize(path) if size is None else size
    with open(path, "rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()
