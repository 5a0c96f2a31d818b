"""The label column of a text file: what its labels are, and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streammargin.matching import MAX_CLASSES, number_in, unpointed

ATTRIBUTE = "label_column"  # of the dataset of labels
TASKS = "tasks"  # the dataset of the tasks of rows of a table


@dataclass(frozen=True)
class LabelColumn:
    """Where labels to be written are from.

    name: of a column of a table, or its number from 0 in a table without names; None: of no table. spelt: whether they
    are spelt as in the table. Then `values_of` decides what they are. outputs: the names of their columns, if they
    are (n, outputs), else None. tasks: the column of the tasks of rows, "" for none.
    """

    name: str | int | None
    spelt: bool = False
    outputs: Sequence[str] | None = None
    tasks: str = ""


def values_of(spellings: Sequence[str]) -> np.ndarray:
    """The labels that these different spellings stand for, one each: numbers (int64 or float64), or text as it is.

    They are numbers if all are, and if no number is spelt in two ways; `unpointed` says what is one. More than
    MAX_CLASSES numbers are no classes, so their spellings do not matter.
    """
    numbers = [number_in(text) for text in spellings]
    alike = len(set(numbers)) < len(set(map(unpointed, spellings))) <= MAX_CLASSES
    if None in numbers or alike:
        return np.array(spellings, object)
    reals = np.array(numbers, np.float64)
    whole = all(isinstance(number, int) or number.is_integer() for number in numbers if number is not None)
    return reals.astype(np.int64) if whole and np.abs(reals).max(initial=0.0) < 2.0**53 else reals
