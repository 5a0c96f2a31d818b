"""Save a training and its states as plain values and arrays, between two blocks, and restore it from them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Annotated, Any, TypeVar

import numpy as np

from streammargin.driver.learn.ranges import Ranges
from streammargin.driver.loop.holders import Holders
from streammargin.driver.loop.run import Run
from streammargin.driver.loop.runs import Runs
from streammargin.driver.status import progress as phases
from streammargin.driver.status.outcome import figures_of
from streammargin.driver.status.progress import Progress, after_the_last
from streammargin.driver.status.stopping import Stopping
from streammargin.errors import DataError
from streammargin.reading.labels import NO_ROWS
from streammargin.reading.prefetch import BlockReader, ReadCounts
from streammargin.rows.blocks import Block
from streammargin.solvers import roles
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Kept, RowCache
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures
from streammargin.solvers.roles import Role, is_number
from streammargin.solvers.state import Visited
from streammargin.solvers.visits import Visit

T = TypeVar("T")


def save_states(run: Run) -> tuple[dict[str, Any], Arrays]:
    """(plain numbers by state, arrays by name). Row numbers of cached rows are saved, and the numbers beside them."""
    numbers: dict[str, Any] = {}
    arrays: Arrays = {}
    for name, state in run.states.items():
        saved = roles.save(state)
        numbers[name] = saved.numbers
        arrays |= {f"{name}/{path}": array for path, array in saved.arrays.items()}
        arrays |= {f"kept/{path}": ids for path, ids in saved.rows.items()}
        arrays |= {f"beside/{path}": array for path, array in saved.beside.items()}
    return numbers, arrays


def restore_states(run: Run, plain: dict[str, Any], arrays: Arrays) -> None:
    """Restore the saved states and stage into a run. ValueError if they belong to another training."""
    stage, due = plain["progress"]["stage"], plain["progress"]["due"]
    if stage not in run.stages or (due and due not in run.stages):
        raise ValueError(f"it is in the stage {stage!r}, and {due!r} follows")
    run.progress.stage = stage
    problem, solver, numbers = run.problem, run.solver, plain["numbers"]
    run.state = roles.new(solver.state_class, problem, solver.dtype(problem), labels=run.labels)
    run.states.pop("ranges", None)
    if "ranges" in numbers:  # until the first pass has ended
        run.states["ranges"] = roles.new(Ranges, problem, labels=NO_ROWS)
    for name, state in run.states.items():
        dtype = solver.dtype(problem) if name == "state" else float
        roles.load(
            state, run.problem_of(name), dtype, roles.SavedState(numbers[name], under(f"{name}/", arrays), {}, {})
        )
    kept, beside = under("kept/", arrays), under("beside/", arrays)
    for path, cache in roles.rows_kept(run.state):
        cache.load_beside(under(f"{path}.", kept), under(f"{path}.", beside))
    if not 0.0 <= run.state.multiplications < np.inf:
        raise ValueError("its count of multiplications is wrong")
    _check_best(problem, run.state.best)


def read_kept(run: Run, arrays: Arrays) -> None:
    """Read the solver's cached rows; called last, once the saved state has passed all checks."""
    reader = run.reader
    holders = run.holders.get(reader) or Holders(reader, np.arange(len(reader.bounds)))
    caches, wanted = dict(roles.rows_kept(run.state)), under("kept/", arrays)
    of_piece = {f"{path}.{name}": path for path in caches for name in under(f"{path}.", wanted)}
    kept = read_rows(run.problem, holders, {name: (caches[of_piece[name]], ids) for name, ids in wanted.items()})
    for path, cache in caches.items():
        cache.restore(under(f"{path}.", kept))


def _check_best(problem: Problem, best: Best) -> None:
    """ValueError or ArithmeticError if the bounds of the best weights contradict each other."""
    try:
        best_figures(problem, best)
    except DataError as error:
        raise ValueError("the figures of its best weights are not numbers") from error


def under(prefix: str, arrays: dict[str, T]) -> dict[str, T]:
    """The entries whose name begins with the prefix, by the rest of their name."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


Wanted = dict[str, tuple[RowCache, np.ndarray]]  # who keeps the rows with these numbers (m,), by the name of the piece


@roles.state
class GatheredRows(Visited):
    """Rows that are gathered, in the order of the source, as their caches keep them."""

    rows: Annotated[RowCache, Role.SUM]

    @staticmethod
    def add(problem: Problem, sums: GatheredRows, wanted: Wanted, block: Block, first: int) -> None:
        """Gather those of these rows that are wanted; their numbers are sorted."""
        start, pieces = sums.origin + first, sums.rows.pieces
        for name, (cache, ids) in wanted.items():
            low, high = np.searchsorted(ids, [start, start + block.rows()])
            if low < high:
                pieces[name] = store.add(pieces.get(name), cache.keep(block, start, ids[low:high]))


def read_rows(problem: Problem, holders: Holders, wanted: Wanted) -> dict[str, Kept]:
    """The rows that are wanted, from one read of those who hold them."""
    bounds = holders.bounds
    for _, ids in wanted.values():
        if ids.dtype != np.int64 or ids.ndim != 1 or not np.all((ids >= 0) & (ids < bounds[-1])):
            raise ValueError("its cache names rows that do not exist")
    every = np.concatenate([np.empty(0, np.int64), *(ids for _, ids in wanted.values())])
    if not every.size:  # nobody must load rows before their scale is known
        return {}
    gathered = roles.new(GatheredRows, problem, labels=NO_ROWS)
    visit = Visit(
        "cached rows", GatheredRows.add, ({name: (cache, np.sort(ids)) for name, (cache, ids) in wanted.items()},),
        leaves=False,
    )  # fmt: skip
    order = np.unique(np.searchsorted(bounds, every, side="right") - 1)
    for found in holders.visit(problem, [(visit, gathered)], order):
        if found is not None:
            roles.merge(gathered, found[1][0])
    pieces = gathered.rows.pieces
    return {  # in the order of the cache
        name: store.choose(pieces[name], np.argsort(np.argsort(ids, kind="stable")))
        for name, (_, ids) in wanted.items()
        if name in pieces
    }


Arrays = dict[str, np.ndarray]


def save(run: Run) -> tuple[dict[str, Any], Arrays]:
    """(plain values for JSON, arrays by name): the arrays are the run's own, not copies.

    Only the numbers of the rows in the solver's cache are saved.
    """
    p = run.progress
    numbers, arrays = save_states(run)
    plain: dict[str, Any] = {"numbers": numbers, "history": run.history.save(), "counts": asdict(run.reader.counts)}
    arrays |= {"bounds": run.bounds}
    progress = {field.name: getattr(p, field.name) for field in fields(p)} | {"spent": run.spent()}
    arrays |= {f"progress/{name}": value for name, value in progress.items() if isinstance(value, np.ndarray)}
    progress = {name: value for name, value in progress.items() if not isinstance(value, np.ndarray)}
    progress["stopping"] = asdict(p.stopping)
    if p.figures is not None:
        progress["figures"] = list(map(asdict, p.figures))
    plain["progress"] = progress
    plain["files"] = [source.files_then for source in run.watched]
    for k, source in enumerate(run.watched):
        arrays |= {f"watched/{k}/{name}": array for name, array in source.arrays().items()}
    return plain, arrays


def restore(run: Run, plain: dict[str, Any], arrays: Arrays) -> None:
    """Restore a saved run of the same problem and plan into this one, which has not begun.

    Reads the solver's cached rows. Raises ValueError if something is missing or has another shape or type; another
    slot may be restored then.
    """
    with incomplete():
        _restore(run, plain, arrays)


@contextlib.contextmanager
def incomplete() -> Iterator[None]:
    """Turn errors from missing or malformed saved values into a ValueError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"the saved state is incomplete: {error}") from error


def _restore(run: Run, plain: dict[str, Any], arrays: Arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and np.isnan(array.min(initial=0.0)):  # without a copy of its length
            raise ValueError(f"{name} holds nan")
    run.doubted = [
        k for k, source in enumerate(run.watched) if source.restore(plain["files"][k], under(f"watched/{k}/", arrays))
    ]
    restore_states(run, plain, arrays)
    run.progress = _progress(plain["progress"], arrays)
    if run.progress.number != run.state.number:
        raise ValueError(f"it is in two passes, {run.progress.number} and {run.state.number}")
    for name, step in run.steps.items():
        if run.progress.phase == name:
            break
        step.finish(run.states[name])
    if run.early is not None:
        run.early.check(run.progress.number)
    run.history.restore(plain["history"])
    read_kept(run, arrays)
    if not run.solver.fits(run.problem, run.state):
        raise ValueError("the arrays of the solver do not fit each other")
    counts = ReadCounts(**plain["counts"])
    if not all(map(is_number, plain["counts"].values())):
        raise ValueError("its counts of reads are not numbers")
    vars(run.reader.counts).update(vars(counts))
    _take_up(run, arrays["bounds"])


def _take_up(run: Run, bounds: np.ndarray) -> None:
    """Resume the interrupted read, or an ended training whose limits have been extended.

    bounds: block bounds of that read. This run's blocks may be smaller, as a smaller tolerance may need more memory for
    the state. An ended training goes on if this one has a smaller tolerance or more passes. ValueError if the
    progress does not fit this training.
    """
    p, rounds = run.progress, run.method.prologue_passes(run.problem)
    able = {phases.PASS, phases.CERTIFICATE, phases.DONE, *run.steps, *([phases.BIAS] if run.midway else [])}
    able |= {phases.PROLOGUE} if p.round < rounds else set()
    able |= {phases.HELD_OUT} if run.validator is not None and p.figures is not None else set()
    able |= {phases.SCORES_PHASE, phases.LAST_READ} if run.early is not None else set()
    able |= {phases.CALIBRATION} if run.calibrating is not None and p.reason is not None else set()
    able |= {phases.PREDICTIONS} if run.predictions is not None and p.reason is not None else set()
    p.check(run.problem, able, len(bounds) - 1)
    if run.predictions is not None and p.predicted is not None:
        run.predictions.check(p.predicted)
    if run.problem.holders > 1:
        if not np.array_equal(run.bounds, bounds):
            raise ValueError("its rows were in other places")
    elif p.order.size or not run.problem.resident:
        _cut(p, run.current_reader, bounds)
    run.active = p.active
    run.take_tolerance(under_way=bool(p.order.size))
    run.aim()
    if p.reason in ("tolerance", "separated", "early_stop", "passes"):
        if not run.active.size:
            p.reason = run.answer.verdict()
        elif p.reason != "passes" or p.number < run.limits.passes:
            p.reason, p.ending, p.proven = None, None, False
            p.midway, p.recount, p.predicted = None, None, None
            if run.early is not None:
                run.early.kept.certified = False
            p.go(phases.PASS)
    elif not (run.active.size or p.order.size or p.phase in after_the_last(able)):
        run.finish("tolerance")
    run.reading = None  # it depends on what is active
    run.clock.set_off(run.current_reader.counts)


def _cut(p: Progress, reader: BlockReader, bounds: np.ndarray) -> None:
    """Split the blocks at the bounds of the saved read too, and translate its order to the new blocks."""
    reader.cut(bounds)
    first = np.searchsorted(reader.bounds, bounds)
    pieces = [np.arange(first[block], first[block + 1]) for block in p.order.tolist()]
    p.position = sum(map(len, pieces[: p.position]))
    p.order = np.concatenate([np.empty(0, np.int64), *pieces])


def _progress(plain: dict[str, Any], arrays: Arrays) -> Progress:
    saved = {**plain, **under("progress/", arrays)}
    saved["stopping"] = Stopping(**saved["stopping"])
    saved["spent"] = tuple(saved["spent"])
    if saved["figures"] is not None:
        saved["figures"] = figures_of(saved["figures"])
    return Progress(**saved)


def save_runs(training: Runs) -> tuple[dict[str, Any], Arrays]:
    """The whole training, between two units, as `save` saves a run."""
    plain, arrays = save(training.run)
    if training.path is not None:
        plain["path"], more = training.path.save()
        arrays |= {f"path/{name}": array for name, array in more.items()}
    return plain, arrays


def restore_runs(training: Runs, plain: dict[str, Any], arrays: Arrays) -> None:
    """Restore a saved training of the same problem and plan into this one. ValueError as for `restore`."""
    run, path = training.run, training.path
    if path is not None:
        with incomplete():
            path.restore(plain["path"], under("path/", arrays))
        if path.first:
            run = run.following(path.at(), [path.C])
    restore(run, plain, arrays)
    training.run = run
    training.follow()  # the saved figures may satisfy a larger tolerance
