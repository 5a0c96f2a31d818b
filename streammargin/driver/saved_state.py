"""Save and restore the states of a run: of the solver, of what decides between its stages, of the driver's reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from streammargin.driver.labels import NO_ROWS
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.ranges import Ranges
from streammargin.errors import DataError
from streammargin.solvers import roles
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Kept, RowCache
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures

if TYPE_CHECKING:
    from streammargin.driver.run import Run

Arrays = dict[str, np.ndarray]
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
    """Restore the saved states and stage into a run. ValueError where they belong to another training."""
    stage, due = plain["progress"]["stage"], plain["progress"]["due"]
    if stage not in run.stages or (due and due not in run.stages):
        raise ValueError(f"it is in the stage {stage!r}, and {due!r} follows")
    run.progress.stage = stage
    problem, solver, numbers = run.problem, run.solver, plain["numbers"]
    run.state = roles.new(solver.kind_of_state(), problem, solver.dtype(problem), labels=run.shared.labels)
    run.states.pop("ranges", None)
    if "ranges" in numbers:  # until the first pass has ended
        run.states["ranges"] = roles.new(Ranges, problem, labels=NO_ROWS)
    for name, state in run.states.items():
        dtype = solver.dtype(problem) if name == "state" else float
        roles.load(state, run.problem_of(name), dtype, roles.Saved(numbers[name], under(f"{name}/", arrays), {}, {}))
    kept, beside = under("kept/", arrays), under("beside/", arrays)
    for path, cache in roles.rows_kept(run.state):
        cache.load_beside(under(f"{path}.", kept), under(f"{path}.", beside))
    if not 0.0 <= run.state.multiplications < np.inf:
        raise ValueError("its count of multiplications is wrong")
    _check_best(problem, run.state.best)


def read_kept(run: Run, arrays: Arrays) -> None:
    """Read the solver's cached rows; called last, once the saved state has passed all checks."""
    caches, wanted = dict(roles.rows_kept(run.state)), under("kept/", arrays)
    of_piece = {f"{path}.{name}": path for path in caches for name in under(f"{path}.", wanted)}
    kept = read_rows(
        run.reader, run.problem.column, {name: (caches[of_piece[name]], ids) for name, ids in wanted.items()}
    )
    for path, cache in caches.items():
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


def read_rows(reader: BlockReader, bias: float, wanted: dict[str, tuple[RowCache, np.ndarray]]) -> dict[str, Kept]:
    """The rows with the wanted numbers (m,), as their caches keep them, from one read of the blocks with these rows."""
    for _, ids in wanted.values():
        if ids.dtype != np.int64 or ids.ndim != 1 or not np.all((ids >= 0) & (ids < reader.bounds[-1])):
            raise ValueError("its cache names rows that do not exist")
    numbers = {name: np.searchsorted(reader.bounds, ids, side="right") - 1 for name, (_, ids) in wanted.items()}
    order = np.unique(np.concatenate([np.empty(0, np.int64), *numbers.values()]))
    if not order.size:  # the reader must not load rows before their scale is known
        return {}
    found: dict[str, Kept] = {}
    for number, (first, _, block) in zip(order, reader.stream(order), strict=True):
        for name, (cache, ids) in wanted.items():
            here = ids[numbers[name] == number]
            if here.size:
                found[name] = store.add(found.get(name), cache.keep(block._replace(bias=bias), first, here))
    return {  # in the order of the cache
        name: store.choose(found[name], np.argsort(np.argsort(numbers[name], kind="stable")))
        for name in wanted
        if name in found
    }
