"""Train on rows that the workers of a dask cluster read: each adds up its own, and all that they send is sums.

A read of a training (`driver/phases/reads.py`) is a round: one task for each worker, with the shards that are its own.
A task carries the visits and what they need of the states; it keeps nothing. So it may be done twice, by anybody, and a
worker that is lost costs no more than asking again. Shards, and the tree by which their sums are added, do not depend
on the workers. So the bits do not either.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import json
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

try:
    import cloudpickle
    from distributed import Client, Future, get_worker
    from distributed.comm import parse_address, parse_host_port
except ImportError as error:
    raise ImportError("streammargin.dask needs dask; pip install 'streammargin[dask]'") from error

from streammargin.api import checked, train_by
from streammargin.compiled.overloads import expose
from streammargin.driver import plan
from streammargin.driver.events import Listener
from streammargin.driver.holders import Holders, Parts, Visits
from streammargin.driver.prefetch import BlockReader, ReadCounts
from streammargin.errors import InputMissingError, ReadWriteError, StreamMarginError, UsageError
from streammargin.options.others import refuse
from streammargin.options.table import Options
from streammargin.result import TrainResult
from streammargin.sinks.console import watched
from streammargin.solvers import roles
from streammargin.solvers.problem import Problem
from streammargin.sources.open import is_path
from streammargin.tables.formats import is_matrix, is_table
from streammargin.version import __version__
from streammargin.workers import Workers

SHARD = 4  # blocks of a shard, whose sums are added up by one worker
MOMENT = 0.25  # seconds between two looks at signals and the clock, while workers read
LOOKS = 30.0  # seconds without an answer before the scheduler is asked whether it still knows of the tasks
GATHER = 20.0  # seconds for an answer to come from its worker, at first; longer each time that it does not
NOBODY = 300.0  # seconds to wait for a worker where there is none
FAILURES = 20  # of tasks in one round, before the training ends
SMALL = 1 << 16  # bytes of a recipe that each task carries
OPENED = 4  # readers that a worker keeps open: of the rows, stored and scaled, and of held-out rows

Node = tuple[int, int]  # of the tree: its level, 0 for a shard, and its number there
Tree = dict[Node, Parts]  # sums of some nodes, none of which is below another


def train(
    client: Client, data: object, *, verbose: bool = False, listeners: Iterable[Listener] = (),
    should_stop: Callable[[], str | None] | None = None, **options: Any,
) -> TrainResult:  # fmt: skip
    """`streammargin.train` with the rows read by the workers of a dask cluster.

    Parameters
    ----------
    client : distributed.Client
        Its workers open the files themselves, and read a block at a time, within `memory` each.
    data : path, list of paths, or pattern such as "/shared/part-*.h5"
        Files of rows that all workers see under the same path. They are shards of one data set.
    verbose, listeners, should_stop, **options : as for `streammargin.train`

    Raises
    ------
    UsageError, DataError, InputMissingError
    ReadWriteError : the scheduler has ended, no worker is left, or tasks end without an answer
    """
    if not isinstance(client, Client):
        raise UsageError(f"client must be a distributed.Client, not {type(client).__name__}")
    unknown = options.keys() - vars(Options()).keys()
    if unknown:
        refuse(unknown)
        raise TypeError(f"train() got an unexpected keyword argument {min(unknown)!r}")
    given = Options.of(options)
    sinks: list[Listener] = [*checked(listeners), *watched(verbose, given.max_seconds)]
    return train_on(client, data, given, sinks, should_stop)


def train_on(
    client: Client, data: object, options: Options, listeners: Iterable[Listener],
    should_stop: Callable[[], str | None] | None,
) -> TrainResult:  # fmt: skip
    """`train` with its options as one object."""
    data = _files(data)
    if options.spool is None and (is_table(data) or is_matrix(data)):
        raise UsageError(
            "workers read HDF5 files; give `spool=DIR` on a file system that all of them share: the rows are written "
            "there once"
        )
    if options.valid is not None and is_path(options.valid):
        options = replace(options, valid=os.path.abspath(options.valid))
    if options.spool is not None:
        options = replace(options, spool=os.path.abspath(options.spool))
    return train_by(data, options, listeners, should_stop, functools.partial(Cluster, client))


def _files(data: object) -> object:
    """Paths that mean the same in each process; a pattern is replaced by the files that it matches, in order."""
    if isinstance(data, (list, tuple)) and data and all(map(is_path, data)):
        return [os.path.abspath(part) for part in data]
    if not is_path(data):
        raise UsageError("workers read files by themselves; give a path, a list of paths, or a pattern like part-*.h5")
    path = os.path.abspath(data)
    if os.path.lexists(path) or not glob.has_magic(path):
        return path
    if not (found := sorted(glob.glob(path))):
        raise InputMissingError(f"no file matches {data}")
    return found


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """A client of the scheduler with this address, or with this file of its address. ReadWriteError without one."""
    address = scheduler
    try:
        if os.path.isfile(scheduler):
            with open(scheduler, encoding="utf-8") as file:
                address = json.load(file)["address"]
        parse_host_port(parse_address(address)[1])  # a client takes a minute to refuse a malformed one
        client = Client(address, set_as_default=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:  # a TimeoutError is an OSError
        raise ReadWriteError(
            f"no dask scheduler answers at {scheduler} ({type(error).__name__}); start one with: dask scheduler"
        ) from error
    with client:
        yield client


# of the client


class Answer(NamedTuple):
    """What a task found: sums of nodes of the tree, and what was read; known: whether the worker had the recipe."""

    sums: Tree
    counts: ReadCounts
    known: bool = True


class Cluster(Holders):
    """The workers of a client as one holder of all rows of a reader."""

    bounds: np.ndarray
    ends: np.ndarray
    reader: BlockReader

    def __init__(self, client: Client, reader: BlockReader) -> None:
        self.client, self.reader = client, reader
        self.bounds = np.array([0, reader.source.rows])
        blocks = reader.source.bounds(plan.EVEN_BYTES)
        count = len(blocks) - 1
        self.ends = np.append(np.arange(0, count, SHARD), count)
        self.blocks = blocks
        self._knows: set[tuple[str, str]] = set()  # workers, and recipes that were sent to them

    def visit(self, problem: Problem, visits: Visits, order: np.ndarray) -> Generator[tuple[int, Parts] | None]:
        """All rows, and what they add to the state of each visit; None a few times a second before."""
        if order.size:
            tree: Tree = {}
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")  # weights of many lines
                yield from self._round(problem, visits, tree)
            [parts] = tree.values()
            yield int(self.bounds[-1]), parts

    def _round(self, problem: Problem, visits: Visits, tree: Tree) -> Generator[None]:
        """Ask all workers, and put what they answer into the tree."""
        task = _Task(problem, visits, self.reader, self.blocks, self.ends)
        most, failures, reason = ReadCounts(), 0, ""
        round_ = _Round(self.client)
        todo = list(range(len(self.ends) - 1))
        while todo or round_.asked:
            if todo and (workers := round_.workers()):
                for address, shards in _shared_out(todo, workers):
                    round_.ask(address, shards, task, self._knows)
                todo = []
            for shards, answer in round_.answers():
                if not isinstance(answer, Answer) or not answer.known:
                    todo += shards
                if isinstance(answer, StreamMarginError):
                    raise _of_worker(answer)
                if isinstance(answer, Exception):
                    failures, reason = failures + 1, f"{type(answer).__name__}: {answer}"
                elif not answer.known:
                    self._knows.clear()
                else:
                    for node, parts in answer.sums.items():
                        climb(tree, task.shards, node, parts, visits)
                    most = _together(self.reader.counts, answer.counts, most)
            if failures > FAILURES:
                raise ReadWriteError(
                    f"{failures} tasks ended without an answer while the workers read {self.reader.source.name}, the "
                    f"last one by {reason}; look at the logs of the workers, and whether `memory` is less than they "
                    "have"
                )
            if todo or round_.asked:
                yield None
        self.reader.counts.read_seconds += most.read_seconds
        self.reader.counts.wait_seconds += most.wait_seconds


def _together(total: ReadCounts, found: ReadCounts, most: ReadCounts) -> ReadCounts:
    """Add the bytes to the total; the most seconds of any worker so far, as they read at the same time."""
    total.bytes_read += found.bytes_read
    return ReadCounts(max(most.read_seconds, found.read_seconds), max(most.wait_seconds, found.wait_seconds))


class _Task:
    """What all tasks of a round have in common."""

    def __init__(
        self, problem: Problem, visits: Visits, reader: BlockReader, blocks: np.ndarray, ends: np.ndarray
    ) -> None:
        buffers = min(max(2, reader.buffer_count), 1 + plan.AHEAD)
        self.recipe: bytes = cloudpickle.dumps((__version__, reader.source, blocks, buffers, reader.labels, ends))
        self.token = hashlib.blake2b(self.recipe, digest_size=16).hexdigest()
        self.shards = len(ends) - 1
        needed = [(visit, roles.sent(state, visit.sums)) for visit, state in visits]
        self.order: bytes = cloudpickle.dumps((problem, needed))


class _Round:
    """The tasks of a round. What has not been answered when it goes is forgotten, and its tasks are cancelled."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked: dict[Future, list[int]] = {}  # the shards of each task
        self._arrived = threading.Event()
        self._patience = GATHER
        self._last = self._peopled = time.monotonic()  # when the last answer came, and when there was a worker
        self._doubted: set[Any] = set()  # keys of tasks that the scheduler did not know a while ago

    def workers(self) -> list[str]:
        """The addresses of the workers, in the order of their names, which a worker keeps that starts anew."""
        self._check()
        try:
            found = self._told("identity", n_workers=-1)["workers"]
        except Exception:  # the scheduler may be ending: looked at again in a moment
            return []
        now = time.monotonic()
        if found:
            self._peopled = now
        elif now - self._peopled > NOBODY:
            raise ReadWriteError(
                f"the dask cluster has had no worker for {NOBODY:.0f} seconds; start some with: dask worker SCHEDULER"
            )
        return sorted(found, key=lambda address: (str(found[address].get("name")), address))

    def _told(self, what: str, **given: Any) -> Any:
        """What the scheduler answers to this question."""
        return self.client.sync(getattr(self.client.scheduler, what), callback_timeout=GATHER, **given)

    def _check(self) -> None:
        """Raise ReadWriteError where the client has lost its scheduler, and has given up."""
        if self.client.status in ("closed", "closing"):
            raise ReadWriteError("the scheduler of the dask cluster ended, or its client was closed; start it again")

    def ask(self, address: str, shards: list[int], task: _Task, knows: set[tuple[str, str]]) -> None:
        """Ask a worker, or another one where it is gone, to visit these shards."""
        known = len(task.recipe) > SMALL and (address, task.token) in knows
        knows.add((address, task.token))
        future = self.client.submit(
            _work, task.token, None if known else task.recipe, task.order, shards,
            key=f"streammargin-{uuid.uuid4().hex}", pure=False, workers=[address], allow_other_workers=True,
        )  # fmt: skip
        future.add_done_callback(lambda _: self._arrived.set())
        self.asked[future] = shards

    def answers(self) -> Iterator[tuple[list[int], Any]]:
        """(shards, their Answer, or the exception in place of one) of what has come; waits for a moment."""
        self._arrived.wait(MOMENT)
        self._arrived.clear()
        self._check()
        for future in list(self.asked):
            if future.status not in ("finished", "error", "cancelled"):  # "lost": the scheduler has it done again
                continue
            try:
                answer: Any = future.result(timeout=self._patience)
            except TimeoutError:  # its worker is ending, or the network is slow
                self._patience *= 2.0
                continue
            except Exception as error:
                answer = error
            self._last = time.monotonic()
            yield self.asked.pop(future), answer
        if self.asked and time.monotonic() - self._last > LOOKS:
            yield from self._forgotten()

    def _forgotten(self) -> Iterator[tuple[list[int], Any]]:
        """Tasks that no worker has had for a while, as where messages were lost. One at work is never asked again."""
        self._last = time.monotonic()
        with contextlib.suppress(Exception):
            held = self._told("processing", workers=None)
            keys = {key for some in held.values() for key in some}
            idle = {future for future in self.asked if future.key not in keys and future.status == "pending"}
            for future in [one for one in idle if one.key in self._doubted and held]:
                yield self.asked.pop(future), TimeoutError("no worker has the task any more")
            self._doubted = {future.key for future in idle}


def _shared_out(shards: list[int], workers: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """(worker, its shards): about as many for each, and shards that follow each other, as their sums are one then."""
    ends = np.linspace(0, len(shards), min(len(workers), len(shards)) + 1).astype(int).tolist()
    for address, first, stop in zip(workers, ends, ends[1:], strict=False):
        yield address, sorted(shards)[first:stop]


def _of_worker(error: StreamMarginError) -> StreamMarginError:
    """The error of a worker, for the user."""
    if isinstance(error, InputMissingError):
        return InputMissingError(f"a worker says: {error.raw}; each reads the files itself, so all must see them there")
    return error


def climb(tree: Tree, shards: int, node: Node, parts: Parts, visits: Visits) -> None:
    """Put the sums of a node into the tree, added to those of the node beside it where these are there, and so on up.

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


# of the workers


class _Opened(NamedTuple):
    """The rows of a recipe in a worker; one task at a time uses their buffers."""

    reader: BlockReader
    ends: np.ndarray
    lock: threading.Lock


_opened: dict[str, _Opened] = {}
_opening = threading.Lock()


def _open(token: str, recipe: bytes | None) -> _Opened | None:
    """The rows of a recipe, opened once; None where they are not open, and it is not given."""
    with _opening:
        if token not in _opened and recipe is not None:
            version, source, blocks, buffers, labels, ends = cloudpickle.loads(recipe)
            if version != __version__:
                raise UsageError(
                    f"a worker has streammargin {__version__}, not {version}; install one version everywhere"
                )
            while len(_opened) >= OPENED:
                del _opened[next(iter(_opened))]
            _opened[token] = _Opened(BlockReader(source, blocks, buffers, labels=labels), ends, threading.Lock())
        return _opened.get(token)


def _work(token: str, recipe: bytes | None, order: bytes, shards: list[int]) -> Answer | Exception:
    """Visit these shards, in a worker; an error is an answer, too, so that it is not asked again."""
    try:
        opened = _open(token, recipe)
        if opened is None:
            return Answer({}, ReadCounts(), known=False)
        problem, visits = cloudpickle.loads(order)
        with opened.lock, np.errstate(all="ignore"):
            return _visit(opened, replace(problem, workers=Workers(get_worker().state.nthreads)), visits, shards)
    except StreamMarginError as error:
        return error


def _visit(opened: _Opened, problem: Problem, visits: Visits, shards: list[int]) -> Answer:
    expose(type(problem.loss))
    expose(type(problem.norm))
    reader, ends = opened.reader, opened.ends
    reader.counts = ReadCounts()
    tree: Tree = {}
    try:
        found = Holders(reader, ends).visit(problem, visits, np.array(shards))
        for shard, (_, parts) in zip(shards, found, strict=True):  # type: ignore[misc]  # they are here
            climb(tree, len(ends) - 1, (0, shard), parts, visits)
    finally:
        problem.workers.close()
    for parts in tree.values():
        parts[:] = [roles.returned(part, visit.sums) for (visit, _), part in zip(visits, parts, strict=True)]
    return Answer(tree, reader.counts)
