"""The tasks of rows of numbers that are read front to back: they stand in an array, or in a file of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import check_input
from streammargin.sources.arrays import as_array


def tasks_in_memory(given: Any, name: str) -> np.ndarray:
    """Tasks (n,) of an array or a FILE.npy. Raises DataError, InputMissingError, UsageError."""
    if not isinstance(given, str):
        return as_array(given, "tasks")
    if not given.endswith(".npy"):
        raise UsageError(f"{name} have no columns beside their numbers; give `tasks` as a FILE.npy")
    check_input(given)
    try:
        found: np.ndarray = np.load(given, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise DataError(f"{given} is not an array of numbers or text; write it with numpy.save") from error
    return found
