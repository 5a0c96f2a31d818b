"""Save and restore the current solver's state, and the watch that decides between stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from streammargin.driver.prefetch import BlockReader
from streammargin.errors import DataError
from streammargin.solvers import roles
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Kept
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures

if TYPE_CHECKING:
    from streammargin.driver.run import Run

Arrays = dict[str, np.ndarray]
T = TypeVar("T")


def save_state(run: Run) -> tuple[dict[str, Any], Arrays]:
    """(plain numbers, arrays by name). Of cached rows the row numbers are saved, and what is beside them."""
    state = run.state
    saved = roles.save(state)
    arrays = {f"state/{name}": array for name, array in saved.arrays.items()}
    arrays |= {f"kept/{name}": ids for name, ids in saved.rows.items()}
    arrays |= {f"beside/{name}": array for name, array in saved.beside.items()}
    watch = roles.save(run.watch) if run.watch is not None else roles.Saved({}, {}, {}, {})
    arrays |= {f"watch/{name}": array for name, array in watch.arrays.items()}
    return {"numbers": saved.numbers, "watch": watch.numbers}, arrays


def restore_state(run: Run, plain: dict[str, Any], arrays: Arrays) -> None:
    """Restore the saved state and stage into a run. ValueError where they belong to another training."""
    stage, due = plain["progress"]["stage"], plain["progress"]["due"]
    if stage not in run.stages or (due and due not in run.stages):
        raise ValueError(f"it is in the stage {stage!r}, and {due!r} follows")
    run.progress.stage = stage
    problem = run.problem
    solver = run.solver
    state: Any = roles.new(solver.kind_of_state(), problem, solver.dtype(problem), labels=run.shared.labels)
    roles.load(state, problem, solver.dtype(problem), roles.Saved(plain["numbers"], under("state/", arrays), {}, {}))
    if run.watch is not None:
        roles.load(run.watch, problem, float, roles.Saved(plain["watch"], under("watch/", arrays), {}, {}))
    kept, beside = under("kept/", arrays), under("beside/", arrays)
    for path, cache in roles.rows_kept(state):
        cache.load_beside(under(f"{path}.", kept), under(f"{path}.", beside))
    run.state = state
    if not 0.0 <= state.multiplications < np.inf:
        raise ValueError("its count of multiplications is wrong")
    _check_best(problem, state.best)


def read_kept(run: Run, arrays: Arrays) -> None:
    """Read the solver's cached rows; called last, once the saved state has passed all checks."""
    kept, state = read_rows(run.reader, run.column, under("kept/", arrays)), run.state
    for path, cache in roles.rows_kept(state):
        cache.restore(under(f"{path}.", kept))


def _check_best(problem: Problem, best: Best) -> None:
    """ValueError or ArithmeticError where the bounds of the best weights contradict each other."""
    try:
        best_figures(problem, best)
    except DataError as error:
        raise ValueError("the figures of its best weights are not numbers") from error


def under(prefix: str, arrays: dict[str, T]) -> dict[str, T]:
    """The entries whose name begins with the prefix, by the rest of their name."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def read_rows(reader: BlockReader, bias: float, wanted: Arrays) -> dict[str, Kept]:
    """The rows with the wanted numbers (m,), by name, from one read of the blocks that contain them."""
    for ids in wanted.values():
        if ids.dtype != np.int64 or ids.ndim != 1 or not np.all((ids >= 0) & (ids < reader.bounds[-1])):
            raise ValueError("its cache names rows that do not exist")
    numbers = {name: np.searchsorted(reader.bounds, ids, side="right") - 1 for name, ids in wanted.items()}
    order = np.unique(np.concatenate([np.empty(0, np.int64), *numbers.values()]))
    if not order.size:  # the reader must not load rows before their scale is known
        return {}
    found: dict[str, Kept] = {}
    for number, (first, _, block) in zip(order, reader.stream(order), strict=True):
        for name, ids in wanted.items():
            here = ids[numbers[name] == number]
            if here.size:
                rows = store.keep(block._replace(bias=bias), first, here)
                found[name] = store.add(found.get(name), rows)
    return {  # in the order of the cache
        name: store.choose(found[name], np.argsort(np.argsort(numbers[name], kind="stable")))
        for name in wanted
        if name in found
    }
