"""Questions about rows that are read front to back: tables, text and files of numbers.

`streammargin/tables/` reads them. If that folder is not there, nothing is such data, and all else works.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import partial
from typing import Any

from streammargin.files import STANDARD_INPUT

PRESENT = importlib.util.find_spec("streammargin.tables") is not None


def _asked(question: str, data: object) -> Any:
    """The answer of `streammargin/tables/formats.py`; without that folder it is no."""
    return PRESENT and getattr(importlib.import_module("streammargin.tables.formats"), question)(data)


is_table, is_parquet, is_matrix = (partial(_asked, name) for name in ("is_table", "is_parquet", "is_matrix"))


def is_ordered(data: object) -> bool:
    """Whether this is read front to back: a table, or such rows of numbers."""
    return (PRESENT and data == STANDARD_INPUT) or is_table(data) or is_matrix(data)


def files_of(paths: Sequence[str]) -> list[str]:
    """The files that are read of these paths: those of folders, and those beside a matrix."""
    return _asked("files_of", paths) or list(paths)


def files_read(data: object, rows: Sequence[str] = (), **named: Any) -> list[str]:
    """All files that a run over `data` reads: no output may be one of these. rows, named: as for those of sources.

    Raises DataError, InputMissingError for a folder whose files cannot be read together.
    """
    from streammargin.sources.open import files_read, paths_of

    return [*files_read(data, rows, **named), *files_of([*paths_of(data), *rows])]


def columns_of(y: object) -> tuple[str, ...] | None:
    """The names of several columns of labels; None if `y` is something else, as labels are: never all different."""
    names = tuple(y) if isinstance(y, (list, tuple)) else ()
    given = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    return names if names and given else None
