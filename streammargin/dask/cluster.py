"""The workers of a cluster as one holder of all rows: each adds up its own, and all that they send is sums.

A read of a training (`driver/loop/phases.py`) is a round: one task for each worker, with the shards that are its own.
A task carries the visits and what they need of the states, and brings numbers of its rows back; it keeps nothing. So it
may be done twice, by anybody, and a worker that is lost costs no more than asking again. Shards, and the tree by which
their sums are added, do not depend on the workers. So the bits do not either.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
import warnings
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise

import cloudpickle
import numpy as np
from distributed import Client

from streammargin.dask.rounds import Round
from streammargin.dask.spool import Spool, of_worker
from streammargin.dask.worker import Numbers, Tree, climb, work
from streammargin.driver.loop.holders import Holders, Parts, Visits
from streammargin.errors import StreamMarginError
from streammargin.reading import plan
from streammargin.reading.prefetch import BlockReader
from streammargin.solvers import roles
from streammargin.solvers.problem import Problem
from streammargin.version import __version__

SHARD = 4  # blocks of a shard, whose sums are added up by one worker
SMALL_RECIPE_BYTES = 1 << 16  # that each task carries


class Cluster(Holders):
    """The workers of a client as one holder of all rows of a reader; spool: the pieces of collections among these."""

    def __init__(self, client: Client, spool: Spool, reader: BlockReader) -> None:
        self.client, self.spool = client, spool
        self.reader: BlockReader = reader
        self.bounds: np.ndarray = np.array([0, reader.source.rows])
        blocks = reader.source.bounds(plan.EVEN_BYTES)
        count = len(blocks) - 1
        self.ends: np.ndarray = np.append(np.arange(0, count, SHARD), count)
        self.blocks = blocks
        self._pieces = [
            spool.files_of(*(reader.source.place(row)[0] for row in (first, stop - 1)))
            for first, stop in pairwise(blocks[self.ends].tolist())
        ]
        self._knows: set[tuple[str, str]] = set()  # workers, and recipes that were sent to them

    def visit(self, problem: Problem, visits: Visits, order: np.ndarray) -> Generator[tuple[int, Parts] | None]:
        """All rows, and what they add to the state of each visit; None a few times a second before."""
        if order.size:
            tree: Tree = {}
            rows: Numbers = {}
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")  # weights of many lines
                yield from self._round(problem, visits, tree, rows)
            [parts] = tree.values()
            for shard, found in rows.items():  # all at once: a round that is broken off was none
                for known, changed in zip(self._rows(visits, shard), found, strict=True):
                    for path, numbers in changed.items():
                        known[path][...] = numbers
            yield int(self.bounds[-1]), parts

    def _rows(self, visits: Visits, shard: int) -> list[roles.OfRows]:
        """Views of the numbers of the rows of a shard, of each visit."""
        first, stop = self.blocks[self.ends[shard : shard + 2]].tolist()
        return [roles.rows_of(state, first, stop) for _, state in visits]

    def _round(self, problem: Problem, visits: Visits, tree: Tree, rows: Numbers) -> Generator[None]:
        """Ask all workers, and put the sums that they answer into the tree, and the numbers of rows into `rows`."""
        task, read, waited = _Task(problem, visits, self), [0.0], [0.0]
        todo = list(range(task.shards))
        with contextlib.closing(Round(self.client)) as round_:
            while todo or round_.asked:
                if todo and (workers := round_.workers()):
                    for address, shards in self._shared_out(todo, workers):
                        self._ask(round_, address, shards, task)
                    todo = []
                for shards, answer in round_.answers():
                    if isinstance(answer, StreamMarginError):
                        raise of_worker(answer)
                    if isinstance(answer, Exception):
                        todo += shards
                        round_.failed(answer, f"read {self.reader.source.name}")
                    elif answer.lacking or not answer.known:
                        todo += shards
                        self.spool.lost(answer.address, answer.lacking)
                        self._knows = set() if not answer.known else self._knows
                    else:
                        self.spool.found(answer.address, self._needed(shards))
                        rows |= answer.rows
                        for node, parts in answer.sums.items():
                            climb(tree, task.shards, node, parts, visits)
                        self.reader.counts.bytes_read += answer.counts.bytes_read
                        read.append(answer.counts.read_seconds)
                        waited.append(answer.counts.wait_seconds)
                if todo or round_.asked:
                    yield None
        self.reader.counts.read_seconds += max(read)  # of any worker, as they read at the same time
        self.reader.counts.wait_seconds += max(waited)

    def _needed(self, shards: Sequence[int]) -> set[str]:
        """The files of the pieces that these shards are in."""
        return set().union(*(self._pieces[shard] for shard in shards))

    def _ask(self, round_: Round, address: str, shards: list[int], task: _Task) -> None:
        """Ask a worker, or another one if it is gone, to visit these shards."""
        known = len(task.recipe) > SMALL_RECIPE_BYTES and (address, task.token) in self._knows
        self._knows.add((address, task.token))
        pieces = self._needed(shards)
        written = self.spool.again(pieces, address)
        rows = cloudpickle.dumps({shard: self._rows(task.visits, shard) for shard in shards})
        future = self.client.submit(
            work, task.token, None if known else task.recipe, task.order, rows, pieces, written,
            key=f"streammargin-{uuid.uuid4().hex}", pure=False, workers=[address], allow_other_workers=True,
        )  # fmt: skip
        round_.put(future, shards)

    def _shared_out(self, shards: Sequence[int], workers: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
        """(worker, its shards): about as many for each, those of pieces that it has, and shards that follow each other.

        The sums of shards that follow each other are one.
        """
        count = min(len(workers), len(shards))
        sizes = np.diff(np.linspace(0, len(shards), count + 1).astype(int)).tolist() + [0] * (len(workers) - count)
        own: dict[str, list[int]] = {worker: [] for worker in workers}
        left: list[int] = []
        for shard in sorted(shards):
            able = (one for one in self.spool.holders(self._pieces[shard], workers) if len(own[one]) < max(sizes))
            own.get(next(able, ""), left).append(shard)
        for worker, size in zip(workers, sizes, strict=True):
            room = max(0, size - len(own[worker]))
            own[worker], left = sorted(own[worker] + left[:room]), left[room:]
        yield from ((worker, mine) for worker, mine in own.items() if mine)


class _Task:
    """The arguments that all tasks of a round have in common."""

    def __init__(self, problem: Problem, visits: Visits, of: Cluster) -> None:
        buffers, reader = min(max(2, of.reader.buffer_count), 1 + plan.AHEAD), of.reader
        self.recipe = cloudpickle.dumps((__version__, reader.source, of.blocks, buffers, reader.labels, of.ends))
        self.token = hashlib.blake2b(self.recipe, digest_size=16).hexdigest()
        self.shards = len(of.ends) - 1
        self.visits = visits
        needed = [(visit, roles.sent(state, visit.sums)) for visit, state in visits]
        self.order: bytes = cloudpickle.dumps((problem, needed))
