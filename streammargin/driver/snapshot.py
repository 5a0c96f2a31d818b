"""Save a run as plain values and arrays, between two blocks, and restore it from them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from streammargin.driver import progress as phases
from streammargin.driver.outcome import figures_of
from streammargin.driver.prefetch import BlockReader, ReadCounts
from streammargin.driver.progress import Progress, after_the_last
from streammargin.driver.run import Run
from streammargin.driver.saved_state import read_kept, restore_states, save_states, under
from streammargin.driver.stopping import Stopping
from streammargin.solvers.roles import is_number

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
    able |= {phases.SCORES, phases.LAST_READ} if run.early is not None else set()
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
