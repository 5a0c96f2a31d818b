"""Rows of a benchmark, one JSON object per line, appended when measured; a stopped run resumes after the last one."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from typing import Any


class Store:
    """The rows in a file; `key` names the fields that tell one row from another."""

    def __init__(self, path: str, key: Sequence[str]) -> None:
        self.path, self.key = path, tuple(key)
        self.rows: list[dict[str, Any]] = []
        if os.path.exists(path):
            self.rows = read_rows(path)
            with open(path, "rb+") as file:  # what was cut short is measured again, and begins a line
                file.truncate(file.read().rfind(b"\n") + 1)

    def find(self, **wanted: Any) -> dict[str, Any] | None:
        """The row whose key is this, if it was measured."""
        return next((row for row in self.rows if all(row[name] == wanted[name] for name in self.key)), None)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row; it is on the disk when this returns."""
        self.rows.append(row)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_rows(path: str) -> list[dict[str, Any]]:
    """The rows of a file; a last line that was cut short is no row."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                rows.append(json.loads(line))
    return rows


def machine() -> str:
    """Processor model and number of cores."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores"
