"""Events as JSON lines."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from streammargin.errors import OutputError, UsageError
from streammargin.json_values import to_plain


class JsonLines:
    """Writes one object a line, flushed; infinity is "inf", NaN null. `-` is standard output.

    kept: a log that is there already stays until it is known whether the training goes on with it (`go_on`) or begins
    anew (run_start): an error before that leaves it as it is. began: called with the first line before it is written.
    """

    def __init__(self, path: str, kept: bool = False, began: Callable[[bytes], None] | None = None) -> None:
        self.path, self.began = path, began
        self._size, self._digest = 0, hashlib.blake2b(digest_size=16)
        self._waiting: list[dict[str, Any]] | None = [] if kept and path != "-" else None
        if path == "-":
            self.file: TextIO = sys.stdout
            return
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | (0 if kept else os.O_TRUNC), 0o666)
            self.file = open(handle, "r+", encoding="utf-8")  # noqa: SIM115  # lives as long as the run
        except OSError as error:
            raise OutputError(f"cannot create the log {path}: {error.strerror}") from error

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] in ("progress", "compiling", "resumed"):
            return
        if self._waiting is not None:
            self._waiting.append(event)
            if event["event"] == "run_start":
                self.file.truncate(0)
                self._let_go()
            return
        line = json.dumps(to_plain(event), allow_nan=False) + "\n"
        if not self._size and self.began is not None:
            self.began(line.encode())
        self.file.write(line)
        self.file.flush()
        self._digest.update(line.encode())
        self._size += len(line.encode())

    def mark(self) -> dict[str, Any] | None:
        """Where the log stands, once all of it is on disk."""
        if self.file is sys.stdout:
            return None
        if not self.file.closed:
            os.fsync(self.file.fileno())
        return {"bytes": self._size, "digest": self._digest.hexdigest()}

    def go_on(self, mark: dict[str, Any] | None, events: list[dict[str, Any]]) -> None:
        """Cut the log back to a mark; a new one begins with the events so far. UsageError for a log of other lines."""
        if self.file is sys.stdout:
            return
        if os.fstat(self.file.fileno()).st_size:
            left = mark["bytes"] if mark else 0
            with open(self.path, "rb") as file:
                while left > 0 and (piece := file.read(min(left, 1 << 20))):  # not all that the mark says at once
                    self._digest.update(piece)
                    self._size, left = self._size + len(piece), left - len(piece)
            if self.mark() != mark:
                raise UsageError(f"the log {self.path} is not the one of the training that goes on; name another one")
            self.file.seek(self._size)
            self.file.truncate()
            self._let_go()
        else:
            self._waiting = [*events, *(self._waiting or [])]
            self._let_go()

    def start_over(self) -> None:
        """What was said of another training goes, once this one begins."""
        if self.file is not sys.stdout:
            self.file.seek(0)
            self._size, self._digest, self._waiting = 0, hashlib.blake2b(digest_size=16), []

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for event in waiting:
            self(event)

    def abandon(self) -> None:
        """Write no more: the disk is full, or the reader of standard output has gone."""
        if self.file is sys.stdout:  # what is still buffered would fail once more at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            with contextlib.suppress(OSError):
                self.file.close()

    def close(self) -> None:
        if self.file is not sys.stdout:
            self.file.close()
