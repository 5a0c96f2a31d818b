"""Train on rows that the workers of a dask cluster read, or have computed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import dask
import numpy as np
from dask.utils import parse_timedelta
from distributed import Client, Security, rpc
from distributed.comm import get_address_host

from streammargin.api import checked, train_by
from streammargin.dask.cluster import Cluster
from streammargin.dask.partitions import files, is_collection, partitions
from streammargin.dask.spool import Spool
from streammargin.driver.status.events import Listener
from streammargin.errors import InputMissingError, ReadWriteError, Refusal, UsageError
from streammargin.files import make_folder
from streammargin.options.folds import Folds, Known
from streammargin.options.others import refuse
from streammargin.options.table import TABLE_OPTIONS, Options, with_table
from streammargin.ordered import columns_of, is_matrix, is_parquet, is_table
from streammargin.result import TrainResult
from streammargin.sinks.console import watched
from streammargin.solvers.registry import make_solver
from streammargin.sources.labels import TASKS
from streammargin.sources.open import is_path
from streammargin.tables.asked import ERROR
from streammargin.tables.readers.base import Reader
from streammargin.tables.spool import OfTable
from streammargin.tables.table import Table, matched, with_roles
from streammargin.training.grid import reads_rows
from streammargin.training.held_out import say_if_trained_on
from streammargin.training.rows import SPOOL
from streammargin.training.tables import asked_of
from streammargin.training.task import make_task


def train(
    client: Client, data: object, *, verbose: bool = False, listeners: Iterable[Listener] = (),
    should_stop: Callable[[], str | None] | None = None, **options: Any,
) -> TrainResult:  # fmt: skip
    """`streammargin.train` with the rows read by the workers of a dask cluster.

    Parameters
    ----------
    client : distributed.Client
        Its workers open the files themselves, and read a block at a time, within `memory` each.

    data : path, list of paths, pattern such as "/shared/part-*.h5", or a collection of dask
        All workers see the files under the same path; they are shards of one data set. Each worker reads or computes
        adjacent parts of Parquet or of a collection. It writes their rows to its local directory, or to `spool`, a
        folder that all workers share. Some partitions are computed twice: they must have the same rows each
        time. Collections are a DataFrame (`y`: the column of the labels, or a Series); the pair (X, y) of Arrays or of
        a DataFrame and a Series; a Bag of frames or of batches (X, y) or (X, y, sample_weight); and a list of Delayed
        ones. `valid` may be a collection, too. `cv` may be the fold of each row, in an Array or a Series.
    verbose, listeners, should_stop, **options : as for `streammargin.train`

    Raises
    ------
    UsageError, DataError, InputMissingError; errors of the collection pass unchanged, except a missing package
    ReadWriteError : the scheduler has ended, no worker is left, or tasks end without an answer
    """
    if not isinstance(client, Client):
        raise UsageError(f"client must be a distributed.Client, not {type(client).__name__}")
    table = options.pop("table", None)
    unknown = options.keys() - vars(Options()).keys()
    if unknown:
        refuse(unknown)
        raise TypeError(f"train() got an unexpected keyword argument {min(unknown)!r}")
    given = with_table(Options.of(options), table)
    sinks: list[Listener] = [*checked(listeners), *watched(verbose, given.max_seconds)]
    return train_on(client, data, given, sinks, should_stop)


def train_on(
    client: Client, data: object, options: Options, listeners: Iterable[Listener],
    should_stop: Callable[[], str | None] | None,
) -> TrainResult:  # fmt: skip
    """`train` with its options as one object."""
    _check(options)
    if options.spool is not None:
        make_folder(options.spool)
        options = replace(options, spool=os.path.abspath(options.spool))
    if isinstance(options.cv, Known) and dask.is_dask_collection(options.cv.given):
        options = replace(options, cv=Known(np.asarray(client.compute(options.cv.given, sync=True))))
    with contextlib.ExitStack() as stack:
        spool = stack.enter_context(contextlib.closing(Spool(client, options.spool)))
        how = None
        if not is_collection(data):
            data = files(data)
        if is_collection(data) or is_parquet(data):
            if options.x is not None:
                raise UsageError("`x` names a dataset of HDF5, and these rows have none; leave it out")
            data, how, options = _spooled(stack, spool, data, options)
        elif options.spool is None and (is_table(data) or is_matrix(data)):
            raise UsageError(
                "workers read HDF5 and Parquet; give `spool=DIR` on a file system that all of them share: the rows "
                "are written there once"
            )
        if options.valid is not None and is_path(options.valid):
            options = replace(options, valid=os.path.abspath(options.valid))
        if how is not None and is_table(options.valid) and not is_parquet(options.valid):
            raise UsageError(
                "with frames of dask, held-out rows must be a collection or Parquet; make `valid` one, as with "
                "dask.dataframe.from_pandas"
            )
        if is_collection(options.valid) or (how is not None and is_parquet(options.valid)):
            options = replace(options, valid=_held_out(stack, spool, how, options))
        return train_by(data, options, listeners, should_stop, functools.partial(Cluster, client, spool))


def _check(options: Options) -> None:
    """Raise UsageError or InputMissingError, before any partition is computed, for what no cluster can do."""
    make_task(options)
    if not options.auto or options.kernel is not None:
        method = make_solver("smo" if options.auto else options.solver)
        if method.whole:
            hint = "use `solver=auto`" if options.kernel is None else "train on one machine"
            raise Refusal(f"{method.called} {method.whole}", hint)
    if is_path(options.valid) and not os.path.exists(options.valid):
        raise InputMissingError(f"there is no held-out file {os.fspath(options.valid)}; check `valid`")


def _spooled(
    stack: contextlib.ExitStack, spool: Spool, data: object, options: Options
) -> tuple[object, OfTable | None, Options]:
    """A collection as a source, with the roles of its columns if it has frames, and the options that it leaves."""
    say_if_trained_on(data, options.held_out)
    labels = columns_of(options.y) or options.y
    own: dict[str, Any] = {"y": labels, "sample_weight": options.sample_weight, "tasks": options.tasks}
    named = {name: value for name, value in own.items() if isinstance(value, (str, int)) or columns_of(value)}
    y, weight, tasks = (None if name in named else value for name, value in own.items())
    rows = partitions(data, y, weight, tasks, held_out=False)
    asked = [*named, *(name for name in TABLE_OPTIONS if name != SPOOL and getattr(options, name) is not None)]
    by = getattr(options.cv, "by", None)
    asked += [] if by is None else [f"cv=K,by={by}"]

    def roles(frames: Reader | None) -> OfTable | None:
        if frames is None and asked:
            raise UsageError(
                f"`{asked[0]}` is for frames, whose columns have names; {rows.name} has none, so leave it out"
            )
        if frames is None:
            return None
        label, weight, tasks = (given or named.get(name) for given, name in zip(rows.beside, own, strict=True))
        beside, naming = (tasks, "tasks") if by is None else (by, "cv")
        chosen = replace(asked_of(options), y=label)
        return OfTable(with_roles(frames, chosen, weight, tasks=beside, naming_tasks=naming), told=False)

    source, how = spool.write(stack, rows, roles, options.cv is not None and options.C is None and reads_rows(options))
    left = dict.fromkeys([*own, *TABLE_OPTIONS]) | {"tasks": None if options.tasks is None else TASKS}
    if isinstance(options.cv, Folds) and by is not None:  # written beside the rows, as tasks are
        left["cv"] = options.cv.replace(by=TASKS)
    return source, how, Options.of({**vars(options), **left})


def _held_out(stack: contextlib.ExitStack, spool: Spool, how: OfTable | None, options: Options) -> object:
    """Held-out rows of a collection as a source; how: what the rows of the training were made by, if of frames."""
    valid, tasks = options.valid, None
    if options.tasks is not None and isinstance(valid, tuple) and len(valid) == 3:
        *pair, tasks = valid
        valid = tuple(pair)
    rows = partitions(valid, None, None, tasks, held_out=True)

    def roles(frames: Reader | None) -> OfTable | None:
        if options.tasks is not None and tasks is None and (frames is None or how is None):
            raise UsageError("the tasks of the held-out rows are unknown; give `valid` as (X, y, tasks)")
        if frames is None:
            return None
        if how is None or how.schema is None:
            raise UsageError("held-out rows are frames, and training rows are not; make both frames or both Arrays")
        labels = (rows.beside[0],) if rows.beside[0] else how.table.labels
        beside = rows.beside[2] or how.table.tasks
        schema = matched(frames, how.schema, labels, tasks=beside)
        asked = replace(how.table.asked, unknown=options.unknown or ERROR)
        return OfTable(Table(frames, asked, schema.values, labels, tasks=beside), schema, told=False)

    return spool.write(stack, rows, roles)[0]


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """A client of the scheduler with this address, or with this file of its address. ReadWriteError without one."""
    address = scheduler
    try:
        if os.path.isfile(scheduler):
            with open(scheduler, encoding="utf-8") as file:
                address = json.load(file)["address"]
        asyncio.run(_reach(address))
        client = Client(address, set_as_default=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, MemoryError) as error:  # a TimeoutError, too
        raise ReadWriteError(
            f"no dask scheduler answers at {scheduler} ({type(error).__name__}); start one with: dask scheduler, and "
            "give the address that it prints, tcp://HOST:PORT, or its scheduler file"
        ) from error
    with client:
        yield client


async def _reach(address: str) -> None:
    """Raise an error within dask's limit of time unless a scheduler answers: a client waits twice, or without end.

    The answers of HTTP are sizes to dask, and it has a MemoryError for them.
    """
    get_address_host(address)
    limit = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
    async with rpc(address, timeout=limit, connection_args=Security().get_connection_args("client")) as found:
        if "workers" not in await asyncio.wait_for(found.identity(), limit):
            raise ValueError("a worker of dask")
