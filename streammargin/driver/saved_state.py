"""The state of the solver at work, and of what decides over several stages, as they are saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streammargin.driver.prefetch import BlockReader
from streammargin.errors import DataError
from streammargin.solvers import roles
from streammargin.solvers.cache import rows as store
from streammargin.solvers.old_state import Array, Kept, Layout, State, numbers_of
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof import best, old_best

if TYPE_CHECKING:
    from streammargin.driver.run import Run

Arrays = dict[str, np.ndarray]


def save_state(run: Run) -> tuple[dict[str, Any], Arrays]:
    """Plain numbers, and arrays by name; of rows that the solver keeps the numbers."""
    state = run.state
    if isinstance(state, State):
        arrays = {f"state/{name}": array for name, array in state.arrays.items()}
        arrays |= {f"kept/{name}": kept.ids for name, kept in state.kept.items()}
        return {"numbers": {**state.numbers, "multiplications": state.multiplications}, "watch": {}}, arrays
    saved = roles.save(state)
    arrays = {f"state/{name}": array for name, array in saved.arrays.items()}
    arrays |= {f"kept/{name}": ids for name, ids in saved.rows.items()}
    watch = roles.save(run.watch) if run.watch is not None else roles.Saved({}, {}, {})
    arrays |= {f"watch/{name}": array for name, array in watch.arrays.items()}
    return {"numbers": saved.numbers, "watch": watch.numbers}, arrays


def restore_state(run: Run, plain: dict[str, Any], arrays: Arrays) -> None:
    """Put the saved state and stage into a run. ValueError where they are those of another training."""
    stage, due = plain["progress"]["stage"], plain["progress"]["due"]
    if stage not in run.stages or (due and due not in run.stages):
        raise ValueError(f"it is in the stage {stage!r}, and {due!r} follows")
    run.progress.stage = stage
    problem = run.problem
    if isinstance(run.state, State):
        _restore_old(run, dict(plain["numbers"]), arrays)
        return
    solver = run.solver
    assert solver.state_class is not None
    state: Any = roles.new(solver.state_class, problem, solver.dtype(problem), labels=problem.row_labels)
    roles.load(state, problem, solver.dtype(problem), roles.Saved(plain["numbers"], under("state/", arrays), {}))
    if run.watch is not None:
        roles.load(run.watch, problem, float, roles.Saved(plain["watch"], under("watch/", arrays), {}))
    run.state = state
    if not 0.0 <= state.multiplications < np.inf:
        raise ValueError("it counts multiplications wrongly")
    if hasattr(state, "best"):
        _check_best(best.best_figures, problem, state.best)


def read_kept(run: Run, arrays: Arrays) -> None:
    """Read the rows that the solver keeps, once all that may refuse the saved state has passed."""
    kept, state = read_rows(run.reader, run.column, under("kept/", arrays)), run.state
    if isinstance(state, State):
        state.kept = kept
        return
    for path, cache in roles.rows_kept(state):
        cache.restore({name.removeprefix(f"{path}."): rows for name, rows in kept.items() if name.startswith(path)})


def _restore_old(run: Run, numbers: dict[str, Any], arrays: Arrays) -> None:
    state, problem = run.state, run.problem
    state.multiplications = numbers.pop("multiplications")
    state.numbers = numbers
    if not roles.is_number(state.multiplications) or not 0.0 <= state.multiplications < np.inf:
        raise ValueError("it counts multiplications wrongly")
    state.arrays = under("state/", arrays)
    layout = run.solver.layout_now(problem, state)
    _widen(layout, state.arrays)
    check_layout(layout, state)
    if old_best.best_layout(problem).keys() <= state.arrays.keys():
        _check_best(old_best.best_figures, problem, state)


def pass_of(state: Any) -> int:
    """The number of the pass at work."""
    return int(state.numbers["pass"] if isinstance(state, State) else state.number)


def _check_best(figures: Any, problem: Problem, state: Any) -> None:
    """ValueError or ArithmeticError where what is known of the best weights excludes itself."""
    try:
        figures(problem, state)
    except DataError as error:
        raise ValueError("its best weights are worth what is no number") from error


def under(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose name begins so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _widen(layout: Layout, arrays: Arrays) -> None:
    """Take float32 arrays over into float64, where a smaller tolerance has that."""
    for name in layout.keys() & arrays.keys():
        entry, saved = layout[name], arrays[name].dtype
        if isinstance(entry, Array) and (np.dtype(entry.dtype), saved) == (np.float64, np.float32):
            arrays[name] = arrays[name].astype(np.float64)


def check_layout(layout: Layout, state: State) -> None:
    """ValueError unless arrays and numbers are those of the layout, in shape and type."""
    arrays, numbers = state.arrays, numbers_of(layout)
    if numbers.keys() != state.numbers.keys():
        raise ValueError(f"the numbers {sorted(numbers.keys() ^ state.numbers.keys())} are missing or unknown")
    for name, value in state.numbers.items():
        if not numbers[name].holds(value):
            raise ValueError(f"{name} is {value!r}")
    declared = {name: entry for name, entry in layout.items() if isinstance(entry, Array)}
    if declared.keys() != arrays.keys():
        raise ValueError(f"the arrays {sorted(declared.keys() ^ arrays.keys())} are missing or unknown")
    for name, entry in declared.items():
        shape, there = (
            (entry.shape, arrays[name].shape) if not entry.grows else (entry.shape[:-1], arrays[name].shape[:-1])
        )
        if shape != there or arrays[name].ndim != len(entry.shape) or arrays[name].dtype != entry.dtype:
            raise ValueError(f"{name} has the shape {arrays[name].shape} and the type {arrays[name].dtype}")


def read_rows(reader: BlockReader, bias: float, wanted: Arrays) -> dict[str, Kept]:
    """The rows of these numbers (m,), by name, from one read of the blocks that hold them."""
    for ids in wanted.values():
        if ids.dtype != np.int64 or ids.ndim != 1 or not np.all((ids >= 0) & (ids < reader.bounds[-1])):
            raise ValueError("it keeps rows that there are not")
    numbers = {name: np.searchsorted(reader.bounds, ids, side="right") - 1 for name, ids in wanted.items()}
    order = np.unique(np.concatenate([np.empty(0, np.int64), *numbers.values()]))
    if not order.size:  # the reader must not keep rows whose scale is still to be found
        return {}
    found: dict[str, Kept] = {}
    for number, (first, _, block) in zip(order, reader.stream(order), strict=True):
        for name, ids in wanted.items():
            here = ids[numbers[name] == number]
            if here.size:
                rows = store.keep(block._replace(bias=bias), first, here)
                found[name] = store.add(found.get(name), rows)
    return {
        name: store.choose(kept, np.argsort(np.argsort(numbers[name], kind="stable"))) for name, kept in found.items()
    }
