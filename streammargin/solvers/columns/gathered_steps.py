"""Newton steps on the columns that matter for several lines at once; each read certifies weights and duals.

A read chooses columns: those with weights, and those that are about to get some. Their values in all rows are gathered,
from rows in memory at once, and otherwise by the next read. The problem of these columns alone is solved in memory
(few_columns.py), and the next read certifies its solution for all columns. If they do not all fit, those that are
furthest from their optimum come first. Nothing of a row is kept from read to read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streammargin.arrays.threads import one_thread
from streammargin.compiled import look as kernel
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers.base import UNIT, VISIT, PassReport, Share
from streammargin.solvers.cache import rows as store
from streammargin.solvers.columns import few_columns
from streammargin.solvers.columns.constant import constants_alone
from streammargin.solvers.columns.few_columns import Few, StepUnderWay
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.bounds import bounds_of_group
from streammargin.solvers.proof.certified_read import CertifiedByRead, CertifiedState
from streammargin.solvers.roles import (
    GROUPS,
    D,
    K,
    Kept,
    N,
    Rows,
    Scratch,
    Shared,
    Stored,
    Sum,
    W,
    b1,
    f8,
    i4,
    i8,
    new,
    of,
    state,
    state_bytes,
    sum_bytes,
)  # fmt: skip
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

COLUMN_BUDGET_SHARE = 0.75  # of the budget, after all else: bytes for columns
LEAST_FITTING_SHARE = 0.02  # least share of all values that must fit, and a column without zeros
NEAR_PULL = 0.95  # of the limit: columns that are gathered, as a missed one costs a pass
MOST_FIRST_COLUMNS, GATHERED_GROWTH = 200, 4  # most columns at first, and times those with weights
FURTHER = 1.2  # the limit of a pull grows by this factor while more columns exceed it
COPIED_VALUES = 1 << 14  # of sparse rows, at once
COPIED = 48  # bytes of such a value: whether it is of the columns, and places, row, column and value of those that are


@state
class Gathered:
    """Columns of all rows, one row after the other: the chosen ones (d,).

    values: of dense rows all, of sparse ones those stored; columns: theirs among the chosen ones; ends (n+1,): where
    sparse rows begin and end. opened: whether there is room for them, though they may have no value.
    """

    chosen: Shared[b1] = of(D)
    opened: bool = False
    values: Kept[Stored] = of(0, grows=True)
    columns: Kept[i4] = of(0, grows=True)
    ends: Kept[i8] = of(0, grows=True)

    def open(self, problem: Problem, sizes: np.ndarray) -> None:
        """Make room for the chosen columns, of which there are so many values (d,)."""
        stored, sparse = int(sizes[self.chosen].sum()), problem.sparse
        self.values, self.columns = np.zeros(stored, problem.dtype), np.zeros(stored if sparse else 0, np.int32)
        self.ends, self.opened = np.zeros(problem.rows + 1 if sparse else 0, np.int64), True

    def close(self) -> None:
        self.opened = False
        self.values, self.columns, self.ends = self.values[:0].copy(), self.columns[:0].copy(), self.ends[:0].copy()

    def copy(self, block: Block, first: int) -> None:
        """Copy the columns of these rows, a piece at a time."""
        if isinstance(block, DenseBlock):
            m, size = int(np.count_nonzero(self.chosen)), few_columns.PRODUCT_ROWS
            out = self.values[first * m : (first + block.rows()) * m].reshape(block.rows(), m)
            for low in range(0, block.rows(), size):
                out[low : low + size] = block.X[low : low + size, self.chosen]
            return
        place, indptr, ends = np.cumsum(self.chosen) - 1, block.indptr, self.ends[first : first + 1 + block.rows()]
        ends[1:], done = 0, int(ends[0])
        for low in range(int(indptr[0]), int(indptr[-1]), COPIED_VALUES):
            stop = min(low + COPIED_VALUES, int(indptr[-1]))
            at = low + np.flatnonzero(self.chosen[block.indices[low:stop]])
            to = slice(done, done + at.size)
            self.values[to], self.columns[to], done = block.data[at], place[block.indices[at]], to.stop
            start, end = np.searchsorted(indptr, low, "right") - 1, np.searchsorted(indptr, stop)  # rows of these
            ends[start + 1 : end + 1] += np.diff(np.searchsorted(at, indptr[start : end + 1]))
        np.cumsum(ends, out=ends)

    def block(self, problem: Problem) -> Block:
        """The columns as rows."""
        m = int(np.count_nonzero(self.chosen))
        if not problem.sparse:
            return DenseBlock(self.values.reshape(problem.rows, m), problem.column)
        return CSRBlock(self.values, self.columns.view(np.uint32), self.ends, m, problem.column)

    def fits(self, problem: Problem) -> bool:
        m, stored, ends = int(np.count_nonzero(self.chosen)), self.values.size, self.ends
        if not (self.opened and problem.sparse):
            return stored == self.opened * m * problem.rows and not self.columns.size and not ends.size
        inside = (ends >= 0).all() and (ends <= stored).all() and ((self.columns >= 0) & (self.columns < m)).all()
        return bool(inside) and self.columns.size == stored and ends.size == problem.rows + 1


@state
class OnGathered(CertifiedState):
    """The state of steps on gathered columns.

    `values`  (d,): how many each column has.
    `image`   (K, d+1): A^T alpha of the last read.
    `due`     (groups,): their steps are to be made.
    `others`  (n, K): the scores by weights of columns that are not gathered; (n, 0) if all are 0. From rows in memory
              they are (n, lines), of the group whose steps are made.
    """

    values: Sum[i8] = of(D)
    image: Kept[f8] = of(K, W)
    due: Shared[b1] = of(GROUPS)
    gathered: Gathered
    others: Rows[Stored] = of(N, 0, grows=True)
    descent: StepUnderWay
    ended: bool = False
    steps: Scratch[Iterator[float] | None] = None


def room(problem: Problem) -> int:
    """Bytes for columns, or 0: too few."""
    copies, beside = problem.copies * sum_bytes(OnGathered, problem), few_columns.bytes_beside(problem)
    left = problem.budget + copies - state_bytes(OnGathered, problem) - beside - COPIED * COPIED_VALUES
    left -= bytes_of_others(problem)
    left -= 8 * problem.rows * problem.sparse + (problem.size if problem.resident else store.BUFFERS)
    even = np.full(problem.features, -(-problem.values // problem.features))
    enough = max(
        LEAST_FITTING_SHARE * float(bytes_of(problem, even).sum()),
        float(bytes_of(problem, np.full(1, problem.rows))[0]),
    )
    return int(COLUMN_BUDGET_SHARE * left) if COLUMN_BUDGET_SHARE * left >= enough else 0


def bytes_of(problem: Problem, sizes: np.ndarray) -> np.ndarray:
    """Bytes (d,) of each column of so many values (d,)."""
    return (problem.dtype.itemsize + 4 * problem.sparse) * sizes + few_columns.bytes_beside_column(problem)


def bytes_of_others(problem: Problem) -> int:
    """Bytes of the scores by columns that are not gathered."""
    return problem.dtype.itemsize * (problem.lines if problem.resident else problem.count) * problem.rows


def suits(problem: Problem) -> bool:
    """Whether steps on gathered columns support this problem, and there is room for them."""
    return problem.holders == 1 and few_columns.supports(problem) and room(problem) > 0


def in_order(problem: Problem, state: OnGathered, blocks: int) -> np.ndarray:
    """Rows are gathered one after the other."""
    return np.arange(blocks)


class GatheredSteps(CertifiedByRead[OnGathered]):
    name = "steps on gathered columns"

    def reserved_bytes(self, problem: Problem) -> int:
        everything = int(bytes_of(problem, np.full(problem.features, problem.rows)).sum())
        beside = bytes_of_others(problem) + few_columns.bytes_beside(problem) + 8 * problem.rows * problem.sparse
        return beside + COPIED * COPIED_VALUES + min(room(problem), everything)

    def fits(self, problem: Problem, state: OnGathered) -> bool:
        descent, columns = state.descent, np.count_nonzero(state.gathered.chosen) + 1
        sizes = {each.shape[1] for each in (descent.step, descent.bent, descent.ahead, descent.bent_ahead)}
        known = state.others.shape[1] in (0, problem.lines, problem.count) and (state.values >= 0).all()
        return bool(known) and sizes in ({0}, {columns}) and state.gathered.fits(problem)

    def start(self, problem: Problem, labels: RowLabels) -> OnGathered:
        state = super().start(problem, labels)
        if problem.free and problem.column:
            for k in range(problem.groups):
                problem.view(state.w, k)[:, -1] = constants_alone(problem, k) / problem.column
        return state

    # the prologue: the pull at the first weights, and the sizes of columns

    def prologue_passes(self, problem: Problem) -> int:
        return 1

    def prologue_visit(self, problem: Problem, state: OnGathered, index: int) -> Visit:
        everything = np.arange(problem.groups)
        return Visit("prologue", self._first_look, (everything,), lines=problem.count)

    def _first_look(self, problem: Problem, state: OnGathered, active: np.ndarray, block: Block, first: int) -> None:
        self.run_block(problem, state, active, block, first)
        if isinstance(block, CSRBlock):
            size = max(COPIED_VALUES, problem.features)
            for low in range(int(block.indptr[0]), int(block.indptr[-1]), size):  # a piece at a time: NumPy casts it
                here = slice(low, min(low + size, int(block.indptr[-1])))
                state.values += np.bincount(block.indices[here], minlength=problem.features)
        else:
            state.values += block.rows()

    @staticmethod
    def _begin(problem: Problem, state: OnGathered) -> None:
        """After the prologue."""
        state.image[:] = state.sums.pull.sum(axis=1)

    def zero_factor(self, problem: Problem, state: OnGathered) -> float:
        self._begin(problem, state)
        found = [bounds_of_group(problem, k, state.w, state.sums).theta for k in range(problem.groups)]
        return min(problem.objective.penalty.zero_factor(problem.objective.penalised(image)) for image in found)

    def raise_costs(self, problem: Problem, state: OnGathered, factor: float) -> None:
        state.image *= factor
        state.best.primal[:], state.best.dual[:] = np.inf, -np.inf

    # passes

    def begin_pass(self, problem: Problem, state: OnGathered, active: np.ndarray) -> None:
        if state.number == 1 and not problem.path:
            self._begin(problem, state)
        super().begin_pass(problem, state, active)
        state.ended, state.due[:] = False, False
        self._release(problem, state)
        if problem.resident:
            state.due[active] = True
        else:
            self._choose(problem, state, active)
            self._open(problem, state, slice(None))

    @staticmethod
    def _open(problem: Problem, state: OnGathered, lines: slice) -> None:
        """Make room for the chosen columns, and for the scores of these lines by the others."""
        w = state.w[lines]
        state.gathered.open(problem, state.values)
        if few_columns.has_others(w, state.gathered.chosen):
            state.others = np.zeros((problem.rows, len(w)), problem.dtype)

    @staticmethod
    def _others(problem: Problem, state: OnGathered, k: int) -> np.ndarray:
        """Those of group k, in place."""
        others = state.others
        return problem.view(others.T, k).T if others.shape[1] == problem.count else others

    @staticmethod
    def _release(problem: Problem, state: OnGathered) -> None:
        state.gathered.close()
        state.others, state.steps = state.others[:, :0].copy(), None
        state.descent = new(StepUnderWay, problem, bound=state.descent.bound)

    def _choose(self, problem: Problem, state: OnGathered, active: np.ndarray) -> None:
        """Choose the columns of all groups that the next read gathers; of the first ones if they do not all fit."""
        groups, most, chosen = active.tolist(), room(problem), state.gathered.chosen
        solved = chosen.copy()  # since their pull was summed up
        for some in (groups, groups[:1]):
            chosen[:] = False
            for k in some:
                chosen |= self._fitting(problem, state, k, solved, most)
            if bytes_of(problem, state.values)[chosen].sum() <= most:
                return

    def _fitting(self, problem: Problem, state: OnGathered, k: int, solved: np.ndarray, most: int) -> np.ndarray:
        """The columns (d,) that matter for group k; if they do not fit those that are furthest from optimality."""
        chosen: np.ndarray = self._wanted(problem, state, k)
        taken = bytes_of(problem, state.values)
        if taken[chosen].sum() > most:
            image, w = problem.view(state.image, k), problem.view(state.w, k)
            off = np.where(~solved, few_columns.violations(problem, image, w), -1.0)
            listed = np.flatnonzero(chosen)
            order = listed[np.argsort(-off[listed], kind="stable")]
            chosen[order[np.cumsum(taken[order]) > most]] = False
        return chosen

    @staticmethod
    def _wanted(problem: Problem, state: OnGathered, k: int) -> np.ndarray:
        """The columns (d,) with weights, and some of those whose pull is at least NEAR_PULL times its limit."""
        image, w, near = problem.view(state.image, k), problem.view(state.w, k), NEAR_PULL
        used = int(np.count_nonzero(w[:, :-1].any(axis=0)))
        enough = max(MOST_FIRST_COLUMNS, GATHERED_GROWTH * used)
        chosen = few_columns.wanted(problem, image, w, near)
        while np.count_nonzero(chosen) > enough:
            near *= FURTHER
            fewer = few_columns.wanted(problem, image, w, near)
            if np.count_nonzero(fewer) <= used:
                break
            chosen = fewer
        return chosen

    def visit(self, problem: Problem, state: OnGathered, active: np.ndarray) -> Visit:
        visit = super().visit(problem, state, active)._replace(cost=VISIT * problem.count)
        more = {"prepare": self.move} if problem.resident else {"keeps": self.gather, "order": in_order}
        return visit._replace(**more)

    def run_block(self, problem: Problem, state: OnGathered, active: np.ndarray, block: Block, first: int) -> None:
        """Certify the weights at these rows, with the best duals for their margins."""
        none = np.zeros((problem.count, 0))
        rows, best = (block, numbered_from(first), labels_of(problem, state)), np.zeros((2, problem.count))
        state.sums.rows += block.rows()
        state.sums.add(problem.loss, rows, problem.lines_of(active), state.w, kernel.Prox(none, none, *best))

    def gather(self, problem: Problem, state: OnGathered, active: np.ndarray, block: Block, first: int) -> None:
        """Keep the chosen columns of these rows, and the scores of these groups by the others."""
        if state.gathered.opened:
            state.gathered.copy(block, first)
        for k in active.tolist() if state.others.size else ():
            out = self._others(problem, state, k)[first : first + block.rows()]
            few_columns.set_other_scores(block, problem.view(state.w, k), state.gathered.chosen, out)

    def move(self, problem: Problem, state: OnGathered, active: np.ndarray, block: Block) -> Share:
        """A unit of the steps of one group on the columns that matter, from rows in memory."""
        if not state.due.any():
            return None
        if not state.gathered.opened:
            k, none = self._turn(problem, state), np.zeros(problem.features, bool)
            self._begin_at(problem, state, k, ~none)
            state.gathered.chosen[:] = self._fitting(problem, state, k, none, room(problem))
            self._open(problem, state, slice(k * problem.lines, (k + 1) * problem.lines))
            self.gather(problem, state, np.array([k]), block, 0)
        if self._improve(problem, state):
            self._release(problem, state)
        return self._done(problem, state)

    @staticmethod
    def _done(problem: Problem, state: OnGathered) -> float:
        return 1.0 - float(state.due.sum() + 1) / (problem.groups + 1)

    @staticmethod
    def _turn(problem: Problem, state: OnGathered) -> int:
        """The group whose steps are made: that of the smallest C."""
        return int(min(np.flatnonzero(state.due), key=lambda k: problem.outputs.costs[k * problem.lines]))

    @staticmethod
    def _begin_at(problem: Problem, state: OnGathered, k: int, columns: np.ndarray) -> None:
        """Begin at the weights of these columns (d,) of the nearest C that has some, if group k has none."""
        w, costs = problem.by_group(state.w), problem.outputs.costs[:: problem.lines]
        used = np.array([each[:, :-1].any() for each in w])
        if used.any() and not used[k]:
            j = int(np.argmin(np.where(used, np.abs(np.log(costs / costs[k])), np.inf)))
            w[k][:, :-1][:, columns], w[k][:, -1] = w[j][:, :-1][:, columns], w[j][:, -1]

    def _improve(self, problem: Problem, state: OnGathered) -> bool:
        """A unit of the steps of a group that is due, on the gathered columns; returns whether they end."""
        k, gathered = self._turn(problem, state), state.gathered
        if state.steps is None and gathered.opened:
            if not state.descent.work:  # no step has been made
                self._begin_at(problem, state, k, gathered.chosen)
            rows, others = gathered.block(problem), self._others(problem, state, k)
            few = Few(problem, labels_of(problem, state), k, rows, others)
            columns = np.append(gathered.chosen, True)
            state.steps = few_columns.minimise(few, problem.view(state.w, k), columns, state.descent)
        if state.steps is not None and not over(state.steps):
            return False
        state.multiplications += state.descent.work
        state.due[k], state.steps = False, None
        state.descent = new(StepUnderWay, problem, bound=state.descent.bound)
        return True

    def skip_remaining(self, problem: Problem, state: OnGathered) -> None:
        state.due[:] = False

    def end_pass(self, problem: Problem, state: OnGathered, active: np.ndarray) -> PassReport | float:
        if state.sums.rows < problem.rows:  # interrupted: it proves nothing
            return self.report(problem, state)
        if not state.ended:
            state.ended, lines = True, problem.lines_of(active)
            self.prove(problem, state, active)
            state.image[lines] = state.sums.pull[lines].sum(axis=1)
            if state.gathered.opened:
                state.due[active] = self.report(problem, state).estimate[active] > problem.tol
        if state.due.any():
            self._improve(problem, state)
            return self._done(problem, state)
        self._release(problem, state)
        return self.report(problem, state)


def over(steps: Iterator[float]) -> bool:
    """Go on with steps until a unit of work is done; returns whether they have ended."""
    done = 0.0
    with one_thread(True):
        for work in steps:
            done += work
            if done >= UNIT:
                return False
    return True
