"""Rows of several tasks: each meets the weights of its own task alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from streammargin.points.base import Answer
from streammargin.rows.blocks import Block, part, stored, taken, values_of

ORDERED_BYTES = 8 << 20  # bytes of rows that are put in order at a time


class OfTask(NamedTuple):
    """Some rows of one task. rows: if they are in the block that they are of: a slice, or their numbers (m,)."""

    task: int
    block: Block
    rows: slice | np.ndarray


def by_task(block: Block, tasks: np.ndarray) -> Iterator[OfTask]:
    """The rows of a block task by task, some at a time; tasks (m,): their numbers, -1 for rows that are left out.

    Rows of a task that follow each other are not copied.
    """
    rows = block.rows()
    each = max(1, stored(block) // max(1, rows)) * (values_of(block).itemsize + 4)
    piece = max(1, ORDERED_BYTES // each)
    for low in range(0, rows, piece):
        high = min(rows, low + piece)
        here, of = part(block, low, high), tasks[low:high]
        order = None if np.all(of[1:] >= of[:-1]) else np.argsort(of, kind="stable")
        if order is not None:
            here, of = taken(here, order), of[order]
        bounds = np.flatnonzero(np.diff(of, prepend=of[0] - 1, append=of[-1] + 1)).tolist()
        for start, stop in pairwise(bounds):
            if of[start] >= 0:
                places = slice(low + start, low + stop) if order is None else low + order[start:stop]
                yield OfTask(int(of[start]), part(here, start, stop), places)


def own_scores(answer: Answer, block: Block, tasks: np.ndarray, count: int, out: np.ndarray) -> None:
    """Fill out (m, trials) with the scores of the rows of a block by the lines of their tasks, of `count` tasks.

    The lines of a trial follow each other; rows that are left out have scores of 0.
    """
    out[:] = 0.0
    for task, rows, places in by_task(block, tasks):
        found = np.empty((rows.rows(), 1))
        for trial in range(out.shape[1]):
            line = trial * count + task
            answer.chosen(slice(line, line + 1)).score(rows, 0, found)
            out[places, trial] = found[:, 0]
