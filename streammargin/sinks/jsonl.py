"""Writes events as JSON lines."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import stat
import sys
from typing import Any, TextIO

from streammargin.errors import OutputError, UsageError
from streammargin.files import check_still_apart, short_reason
from streammargin.json_values import to_plain


class JsonLines:
    """Writes one object per line, flushed; infinity is "inf", NaN null. `-` is standard output.

    kept: keep an existing log until the training resumes it (`go_on`) or begins anew (run_start). So an earlier error
    leaves it unchanged. Raises OutputError for a pipe, which has no place to go back to, and for an input by now.
    """

    def __init__(self, path: str, kept: bool = False) -> None:
        self.path = path
        self._size, self._digest = 0, hashlib.blake2b(digest_size=16)
        self._waiting: list[dict[str, Any]] | None = [] if kept and path != "-" else None
        if path == "-":
            self.file: TextIO = sys.stdout
            return
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            self.file = open(handle, "r+", encoding="utf-8")  # noqa: SIM115  # closed at the end of the run
            check_still_apart(path, handle)
            if not kept and stat.S_ISREG(os.fstat(handle).st_mode):
                os.ftruncate(handle, 0)
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise OutputError(f"cannot create the log {path}: {short_reason(error)}") from error

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] in ("progress", "compiling", "writing", "note", "resumed"):
            return
        if self._waiting is not None:
            self._waiting.append(event)
            if event["event"] == "run_start":
                self.file.truncate(0)
                self._write_waiting()
            return
        line = _line(event)
        self.file.write(line)
        self.file.flush()
        self._digest.update(line.encode())
        self._size += len(line.encode())

    def mark(self) -> dict[str, Any] | None:
        """Length and digest of the log, after it was flushed to disk."""
        if self.file is sys.stdout:
            return None
        if not self.file.closed:
            os.fsync(self.file.fileno())
        return {"bytes": self._size, "digest": self._digest.hexdigest()}

    def go_on(self, mark: dict[str, Any] | None, events: list[dict[str, Any]]) -> None:
        """Truncate the log to a mark; an empty log gets the events so far. UsageError if its lines are different."""
        if self.file is sys.stdout:
            return
        if os.fstat(self.file.fileno()).st_size:
            left = mark["bytes"] if mark else 0
            with open(self.path, "rb") as file:
                while left > 0 and (piece := file.read(min(left, 1 << 20))):  # in pieces: the mark may be any number
                    self._digest.update(piece)
                    self._size, left = self._size + len(piece), left - len(piece)
            if self.mark() != mark:
                raise UsageError(f"the log {self.path} does not belong to the resumed training; name another one")
            self.file.seek(self._size)
            self.file.truncate()
            with open(self.path, "rb") as file:  # warnings about options are the same each time
                told = set(itertools.takewhile(lambda line: b'"event": "warning"' in line, file))
            self._waiting = [event for event in self._waiting or [] if _line(event).encode() not in told]
        else:
            self._waiting = [*events, *(self._waiting or [])]
        self._write_waiting()

    def start_over(self) -> None:
        """Replace the log of another training, once this one begins."""
        if self.file is not sys.stdout:
            self.file.seek(0)
            self._size, self._digest, self._waiting = 0, hashlib.blake2b(digest_size=16), []

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for event in waiting:
            self(event)

    def abandon(self) -> None:
        """Write no more: the disk is full, or standard output was closed."""
        if self.file is sys.stdout:  # else flushing the buffer at exit would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            with contextlib.suppress(OSError):
                self.file.close()

    def close(self) -> None:
        if self.file is not sys.stdout:
            self.file.close()


def _line(event: dict[str, Any]) -> str:
    return json.dumps(to_plain(event), allow_nan=False) + "\n"
