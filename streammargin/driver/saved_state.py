"""Save and restore the states of a run: of the solver, of what decides between its stages, of the driver's reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

from streammargin.driver.holders import Holders
from streammargin.driver.labels import NO_ROWS
from streammargin.driver.ranges import Ranges
from streammargin.errors import DataError
from streammargin.rows.blocks import Block
from streammargin.solvers import roles
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Kept, RowCache
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures
from streammargin.solvers.roles import Role
from streammargin.solvers.state import Visited
from streammargin.solvers.visits import Visit

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
    """Restore the saved states and stage into a run. ValueError if they belong to another training."""
    stage, due = plain["progress"]["stage"], plain["progress"]["due"]
    if stage not in run.stages or (due and due not in run.stages):
        raise ValueError(f"it is in the stage {stage!r}, and {due!r} follows")
    run.progress.stage = stage
    problem, solver, numbers = run.problem, run.solver, plain["numbers"]
    run.state = roles.new(solver.kind_of_state(), problem, solver.dtype(problem), labels=run.labels)
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
class Gathered(Visited):
    """Rows that are gathered, in the order of the source, as their caches keep them."""

    rows: Annotated[RowCache, Role.SUM]

    @staticmethod
    def add(problem: Problem, sums: Gathered, wanted: Wanted, block: Block, first: int) -> None:
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
    gathered = roles.new(Gathered, problem, labels=NO_ROWS)
    visit = Visit(
        "cached rows", Gathered.add, ({name: (cache, np.sort(ids)) for name, (cache, ids) in wanted.items()},),
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
