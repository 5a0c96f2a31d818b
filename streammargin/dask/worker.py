"""A worker's part of a round: it reads its shards, and adds up their sums."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from distributed import get_worker

from streammargin.arrays.threads import one_thread
from streammargin.compiled.overloads import expose
from streammargin.dask.pieces import close, lacks
from streammargin.driver.loop.holders import Holders, Parts, Visits
from streammargin.errors import StreamMarginError, UsageError
from streammargin.reading.prefetch import BlockReader, ReadCounts
from streammargin.rows.products import MANY_LINES
from streammargin.solvers import roles
from streammargin.solvers.problem import Problem
from streammargin.version import __version__
from streammargin.workers import Workers

atexit.register(gc.freeze)  # else the collector takes .4 s of CPU at the end, and a Nanny kills after 4 s

OPENED = 4  # readers that a worker keeps open: of the rows, stored and scaled, and of held-out rows

Node = tuple[int, int]  # of the tree: its level, 0 for a shard, and its number there
Tree = dict[Node, Parts]  # sums of some nodes, none of which is below another
Numbers = dict[int, list[roles.OfRows]]  # of the rows of each shard, by visit


class TaskResult(NamedTuple):
    """The result of a task: sums of nodes of the tree, the rows read, and by which worker.

    rows: of each shard and visit, the numbers of its rows that changed. known: whether it had the recipe; lacking:
    files of pieces that it had not.
    """

    sums: Tree
    counts: ReadCounts
    address: str
    rows: Numbers
    known: bool = True
    lacking: Sequence[str] = ()


def climb(tree: Tree, shards: int, node: Node, parts: Parts, visits: Visits) -> None:
    """Put the sums of a node into the tree, added to those of the node beside it if these are there, and so on up.

    shards: of all rows, the leaves of the tree.
    """
    level, number = node
    while shards > 1 << level:
        beside, width = number ^ 1, -(-shards >> level)
        if beside < width:
            if (level, beside) not in tree:
                break
            pair = [tree.pop((level, beside)), parts]
            parts, later = pair if beside < number else pair[::-1]
            for (visit, _), part, other in zip(visits, parts, later, strict=True):
                roles.merge(part, other, visit.sums)
        level, number = level + 1, number >> 1
    tree[level, number] = parts


@dataclass
class _Opened:
    """The rows of a recipe in a worker; one task at a time uses their buffers, which fit these pieces."""

    reader: BlockReader
    ends: np.ndarray
    lock: threading.Lock = field(default_factory=threading.Lock)
    pieces: set[str] = field(default_factory=set)


_opened: dict[tuple[str, str], _Opened] = {}  # by worker and recipe
_opening = threading.Lock()


def _open(token: str, recipe: bytes | None) -> _Opened | None:
    """The rows of a recipe, opened once; None if they are not open, and it is not given."""
    key = (get_worker().address, token)
    with _opening:
        if key not in _opened and recipe is not None:
            version, source, blocks, buffers, labels, ends = cloudpickle.loads(recipe)
            if version != __version__:
                raise UsageError(
                    f"a worker has streammargin {__version__}, not {version}; install one version everywhere"
                )
            while len(_opened) >= OPENED:
                del _opened[next(iter(_opened))]
            _opened[key] = _Opened(BlockReader(source, blocks, buffers, labels=labels), ends)
        return _opened.get(key)


class _Shards(Holders):
    """Shards of a worker. rows: of each and of each visit, the numbers of its rows; they stay as they came."""

    def __init__(self, opened: _Opened, rows: Numbers) -> None:
        super().__init__(opened.reader, opened.ends)
        self.rows = rows

    def parts(self, visits: Visits, number: int) -> Parts:
        return [
            roles.with_rows(roles.beside(state, visit.sums), {path: one.copy() for path, one in rows.items()})
            for (visit, state), rows in zip(visits, self.rows[number], strict=True)
        ]


def work(
    token: str, recipe: bytes | None, order: bytes, rows: bytes, pieces: set[str], written: list[Any]
) -> TaskResult | StreamMarginError:
    """Visit the shards of these rows, in a worker; an error is an answer, too, so that it is not asked again.

    pieces: the files that the shards are in, of rows of a collection; written: what became of those written just now.
    """
    address = get_worker().address
    try:
        for found in written:
            if isinstance(found, StreamMarginError):
                return found
        if lacking := lacks(pieces):
            return TaskResult({}, ReadCounts(), address, {}, lacking=lacking)
        opened = _open(token, recipe)
        if opened is None:
            return TaskResult({}, ReadCounts(), address, {}, known=False)
        problem, visits = cloudpickle.loads(order)
        with opened.lock, one_thread(problem.lines >= MANY_LINES), np.errstate(all="ignore"):
            if not pieces <= opened.pieces:
                opened.reader.release()
                opened.pieces |= pieces
            workers = Workers(get_worker().state.nthreads)
            here = _Shards(opened, cloudpickle.loads(rows))
            return _visit(here, replace(problem, workers=workers), visits, address)
    except StreamMarginError as error:
        return error


def _visit(here: _Shards, problem: Problem, visits: Visits, address: str) -> TaskResult:
    expose(type(problem.loss))
    expose(type(problem.norm))
    here.reader.counts = ReadCounts()
    tree: Tree = {}
    rows = {}
    try:
        found = here.visit(problem, visits, np.array(list(here.rows)))
        for shard, (_, parts) in zip(here.rows, found, strict=True):  # type: ignore[misc]  # they are here
            rows[shard] = list(map(roles.changed, parts, here.rows[shard]))
            climb(tree, len(here.ends) - 1, (0, shard), parts, visits)
    finally:
        problem.workers.close()
    for parts in tree.values():
        parts[:] = [roles.returned(part, visit.sums) for (visit, _), part in zip(visits, parts, strict=True)]
    return TaskResult(tree, here.reader.counts, address, rows)


async def remove(folder: str, dask_worker: Any) -> None:
    """Remove the pieces in this folder of a worker, and close them. A coroutine, for which nobody has to wait."""
    with _opening:
        for key in [key for key, opened in _opened.items() if any(file.startswith(folder) for file in opened.pieces)]:
            del _opened[key]
    close(folder)
    shutil.rmtree(os.path.join(dask_worker.local_directory, folder), ignore_errors=True)
