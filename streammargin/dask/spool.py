"""The pieces of collections: written once by the workers, and again if they are lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import dask
import numpy as np
from distributed import Client, Future, KilledWorker
from distributed.comm import CommClosedError

from streammargin.dask.partitions import Partitions
from streammargin.dask.pieces import Piece, Written
from streammargin.dask.rounds import Round
from streammargin.dask.worker import remove
from streammargin.dask.write import Frames, WrittenPart, peeked, write
from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.files import temporary_folder
from streammargin.rows.blocks import nbytes
from streammargin.sources.schema import Column, Schema
from streammargin.sources.shards import ShardedSource
from streammargin.tables.learn import learn
from streammargin.tables.readers.base import Reader
from streammargin.tables.spool import OfTable

LOST = (KilledWorker, CancelledError, TimeoutError, CommClosedError)  # and not an error of the collection


class AllPieces(ShardedSource):
    """All pieces of a collection."""

    def __init__(self, pieces: list[Piece]) -> None:
        super().__init__(pieces)
        self.pieces: list[Piece] = pieces

    def some_rows(self, bounds: np.ndarray) -> Iterator[tuple[int, int]]:
        """The first ones of each piece, as this process has no others."""
        for piece, start in zip(self.pieces, self.starts.tolist(), strict=False):
            assert piece.first is not None
            yield start, start + piece.first.rows()

    def held_bytes(self) -> int:
        return super().held_bytes() + sum(nbytes(piece.first) for piece in self.pieces if piece.first is not None)


class Spool:
    """The pieces of a training. folder: one that all workers share; None: they are in the workers' own."""

    def __init__(self, client: Client, folder: str | None) -> None:
        self.client = client
        self.shared = folder is not None
        self.folder: str = os.path.join(folder or "", f"streammargin-{uuid.uuid4().hex}")
        self._parts: dict[str, tuple[Any, ...]] = {}  # of each file: what is computed, and how it is written
        self._files: dict[str, str] = {}  # of each piece by name
        self._held: dict[str, set[str]] = {}  # files of each worker
        self._gone: set[str] = set()  # files that are no longer in the shared folder

    def close(self) -> None:
        """Remove the pieces, and what was written before an error."""
        if self.shared:
            shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(Exception):  # the cluster may be ending, and with it what its workers have
            self.client.run(remove, self.folder, on_error="ignore", wait=False)

    # where the pieces are

    def files_of(self, first: str, last: str) -> set[str]:
        """The files of the pieces from the first of these names to the last; none if they are no pieces."""
        if first not in self._files:
            return set()
        names = list(self._files)
        return {self._files[name] for name in names[names.index(first) : names.index(last) + 1]}

    def holders(self, files: set[str], workers: Sequence[str]) -> Iterator[str]:
        """The workers that have all these files, those with the fewest pieces first; none for no files."""
        if files and not self.shared:
            able = [one for one in workers if files <= self._held.get(one, set())]
            yield from sorted(able, key=lambda one: len(self._held[one]))

    def found(self, address: str, files: set[str]) -> None:
        """A worker has these."""
        self._held.setdefault(address, set()).update(files)
        self._gone -= files

    def lost(self, address: str, files: Iterable[str]) -> None:
        """A worker lacks these."""
        self._held.setdefault(address, set()).difference_update(files)
        self._gone.update(files)

    def again(self, files: set[str], address: str) -> list[Future]:
        """Have those of these pieces written that a worker lacks."""
        lacking = files & self._gone if self.shared else files - self._held.get(address, set())
        tasks = [_task(write, *self._parts[file]) for file in sorted(lacking)]
        return list(self.client.compute(tasks, workers=[address], allow_other_workers=True)) if tasks else []

    # how they come there

    def write(
        self, stack: contextlib.ExitStack, rows: Partitions, roles: Callable[[Reader | None], OfTable | None],
        few: bool = False,
    ) -> tuple[AllPieces, OfTable | None]:  # fmt: skip
        """The rows of a collection as a source, and what made them of frames.

        roles: what the columns of frames are; None of batches, which have none. few: whether this process needs the
        first rows of each piece. Raises DataError, UsageError, ReadWriteError; errors of the collection pass unchanged.
        """
        columns = rows.columns if rows.columns is not None or rows.batches else self._columns(rows)
        frames = None if columns is None else Frames(rows, columns, self._named(rows), self._each)
        made = roles(frames)
        found = self._each(write, rows, self._named(rows), *_bare(made), "", few)
        if made is not None and frames is not None and None in found:
            made = replace(made, schema=learn(made.table, tally=frames.tally).schema)
            found = self._each(write, rows, self._named(rows), *_bare(made), "", few)
        source = AllPieces(self._pieces(stack, rows, made, found))
        if made is not None and made.schema is None:
            table = made.table
            made = replace(made, schema=Schema(tuple(map(Column, table.values)), table.labels, weight=table.weight))
        return source, made

    def _columns(self, rows: Partitions) -> list[str] | None:
        """The columns of frames, from the first partition with rows; None for batches."""
        for number, part in enumerate(self._named(rows)):
            [found] = self._each(peeked, rows._replace(parts=[rows.parts[number]]), [part])
            if found is not False:
                return None if found is True else found
        raise DataError(f"{rows.name} has no rows; check the input")

    def _named(self, rows: Partitions) -> list[WrittenPart]:
        folder = os.path.join(self.folder, rows.name.replace(" ", "-"))
        return [WrittenPart(rows.name, k, os.path.join(folder, f"{k}.h5")) for k in range(len(rows.parts))]

    def _pieces(
        self, stack: contextlib.ExitStack, rows: Partitions, made: OfTable | None, found: list[Written]
    ) -> list[Piece]:  # fmt: skip
        """The pieces of the partitions that have rows."""
        kept = list(map(_shared, _bare(made)))
        home = stack.enter_context(temporary_folder())
        pieces = []
        for data, part, known in zip(rows.parts, self._named(rows), found, strict=True):
            if not known.rows:
                continue
            path = os.path.join(home, f"{part.number}.h5")
            with open(path, "wb") as file:
                file.write(known.husk)
            pieces.append(Piece(part.name, part.file, path, known.facts, known.digest, first=known.first))
            self._parts[part.file] = data, part, *kept, known.digest
            self._files[part.name] = part.file
            self.found(known.address, {part.file})
        if not pieces:
            raise DataError(f"{rows.name} has no rows; check the input")
        return pieces

    def _each(self, function: Callable[..., Any], rows: Partitions, parts: list[WrittenPart], *given: Any) -> list[Any]:
        """The results of this function for each partition. A worker is asked for partitions that follow each other.

        So its shards follow each other, too: it sends few sums, and hardly any shard has rows of two workers.
        """
        found: dict[int, Any] = {}
        todo, kept = list(range(len(parts))), list(map(_shared, given))
        with contextlib.closing(Round(self.client)) as round_:
            while todo or round_.asked:
                workers = round_.workers()
                if todo and workers:
                    for address, some in zip(workers, np.array_split(todo, len(workers)), strict=True):
                        tasks = [_task(function, rows.parts[k], parts[k], *kept) for k in some]
                        futures = self.client.compute(tasks, workers=[address], allow_other_workers=True)
                        for future, k in zip(futures, some.tolist(), strict=True):
                            round_.put(future, k)
                    todo = []
                for k, answer in round_.answers():
                    if isinstance(answer, LOST):
                        round_.failed(answer, f"computed {rows.name}")
                        todo.append(k)
                    elif isinstance(answer, Exception):  # of the rows, or of the collection
                        raise of_worker(answer)
                    else:
                        found[k] = answer
        return [found[k] for k in range(len(parts))]


def of_worker(error: Exception) -> Exception:
    """The error of a worker, for the user: what it lacks is said to be lacking there."""
    if isinstance(error, InputMissingError):
        return InputMissingError(f"a worker says: {error.raw}; each reads the files itself, so all must see them there")
    if isinstance(error, ImportError):
        return UsageError(f"a worker says: {error}; install the same packages everywhere")
    return error


def _bare(made: OfTable | None) -> tuple[OfTable | None, Sequence[str]]:
    """The rows of frames without their reader, as workers have their own, and the columns."""
    if made is None:
        return None, ()
    return replace(made, table=replace(made.table, reader=None)), made.table.reader.columns  # type: ignore[arg-type]


def _shared(value: Any) -> Any:
    """A value of many tasks, which is sent once."""
    return dask.delayed(value, traverse=False)


def _task(function: Callable[..., Any], data: Any, *given: Any) -> Any:
    """This function of a partition, as a task that is done anew each time."""
    return dask.delayed(function, pure=False)(data, *given)
