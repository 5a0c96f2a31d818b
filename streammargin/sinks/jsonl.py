"""Events as JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, TextIO

from streammargin.errors import OutputError
from streammargin.json_values import to_plain


class JsonLines:
    """Writes one object a line, flushed; infinity is "inf", NaN null. `-` is standard output."""

    def __init__(self, path: str) -> None:
        if path == "-":
            self.file: TextIO = sys.stdout
            return
        try:
            self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115  # lives as long as the run
        except OSError as error:
            raise OutputError(f"cannot create the log {path}: {error.strerror}") from error

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            return
        self.file.write(json.dumps(to_plain(event), allow_nan=False) + "\n")
        self.file.flush()

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
