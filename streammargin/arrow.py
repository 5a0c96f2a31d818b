"""pyarrow, imported at its first use: tables need it, and all else works without it."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from streammargin.errors import UsageError


def check_installed() -> None:
    """Raise UsageError if there is no pyarrow."""
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        raise UsageError(
            "tables are read by pyarrow, which is not installed; install it: pip install 'streammargin[tables]'"
        ) from None


def release() -> None:
    """Give the memory that pyarrow holds, but does not use, back to the system."""
    if "pyarrow" in sys.modules:
        pa.default_memory_pool().release_unused()


class _Later:
    """A module that is imported when something of it is asked for. Raises UsageError if it is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, part: str) -> Any:
        check_installed()
        found = getattr(importlib.import_module(self._name), part)
        setattr(self, part, found)
        return found


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, dataset, parquet
else:
    pa, pc = _Later("pyarrow"), _Later("pyarrow.compute")
    csv, dataset, parquet = (_Later(f"pyarrow.{name}") for name in ("csv", "dataset", "parquet"))

__all__ = ["check_installed", "csv", "dataset", "pa", "parquet", "pc", "release"]
