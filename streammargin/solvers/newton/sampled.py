"""Out of core: a Newton step a read, with an exact gradient, and the Hessian of a weighted sample that the read draws.

A row is drawn by what it adds to the Hessian, trace(D_i) ||x_i||^2. D_i are the second derivatives of its loss by its
scores. Its key is a number from (0, 1) over that chance, and rows with the smallest keys
are kept (priority sampling: Duffield, Lund and Thorup 2007). So as many rows stay as there is room for, and which does
not depend on the blocks. A row counts 1 / probability times. If the range of each column is known, rows are kept in
bytes: four times as many as in float32.

Each read visits all rows: it certifies its weights, and has the gradient of the next step. Conjugate gradients find
that step on the sample, in memory, as they do on all rows (truncated.py). What the sample's gradient lacks is added.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled import products as kernel
from streammargin.compiled.judged import judge_of
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, values_of
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers import leaves
from streammargin.solvers.base import PassReport
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.coded import PLAIN_CODING, CodedRows, Coding
from streammargin.solvers.cache.rows import Kept
from streammargin.solvers.newton.held import Held, HeldPart, ridge
from streammargin.solvers.newton.near_margin import pseudorandom
from streammargin.solvers.newton.prox_newton import share_left
from streammargin.solvers.newton.truncated import ByProducts, Newton, Truncated, factored, supports
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import OF_OBJECTIVE
from streammargin.solvers.roles import GROUPS, D, Shared, W, f4, f8, of, state
from streammargin.solvers.state import labels_for

WIDE_HESSIAN_COLUMNS = 4000  # a Hessian of so many columns takes fewer reads, and is summed up
LEAST_DRAWN_ROWS = 3  # of a sample, in multiples of the columns
ENOUGH_DRAWN_ROWS = 10  # the same, for steps that surely lead far: three times as many led nowhere on 200,000 cells
FLOOR = 0.1  # of the mean: the least chance of a row
LEAST_CHANCE = 1e-200  # of a row before a mean is known
FULL_SAMPLE_RATIO = 1.05  # times the room for the sample: then rows are dropped
MOST_BUFFERS, BUFFER_BUDGET_PART = 128 << 20, 6  # for blocks: one byte of so many, in these bounds
DRAWN_ROW_BYTES = 8 + 8 + 8 + 2 + 8 + 2 * (2 + 8)  # beside its values and scores: number, key, chance, labels
CURVED_CHUNK_ROWS = 1024  # rows whose second derivatives are found at a time
DENSE_COLUMNS = D.where(lambda problem: not problem.sparse)


class SampleNumbers(NamedTuple):
    """Numbers of m rows of the sample."""

    keys: np.ndarray
    chances: np.ndarray
    codes: np.ndarray
    weights: np.ndarray


@state
class OnSample(Newton):
    """The step on a sample, whose preconditioner has half the bytes."""

    of_columns: Shared[f4] = of(W, W)


@state
class DrawnSample:
    """The sample that a read draws: rows whose keys are below `limit`, which take `held` bytes.

    Beside a row lie its key, which is a hash over its chance, and its chance, class and weight.

    `total`        the sum of the chances in this read.
    `mean`         that of the chances of all rows in the last read.
    `low`, `high`  (d,): the range of each column so far.
    `known`        whether the ranges are those of all rows.
    """

    rows: CodedRows
    limit: float = math.inf
    held: int = 0
    mean: float = 0.0
    total: float = 0.0
    low: Shared[f8] = of(DENSE_COLUMNS, fill=math.inf)
    high: Shared[f8] = of(DENSE_COLUMNS, fill=-math.inf)
    known: bool = False


@state
class SampledState(ByProducts):
    """scores, curvatures, along: of the rows drawn, as one after the other, at the weights of the step and along it.

    begun (K, d+1): where the last step began. There `objective` (groups,) was reached, and descent (groups,) minus its
    derivative along the step. ended: the sums of the read were used.
    """

    newton: OnSample
    drawn: DrawnSample
    scores: Shared[f8] = of(0, grows=True)
    curvatures: Shared[f8] = of(0, grows=True)
    along: Shared[f8] = of(0, grows=True)
    begun: Shared[f8]
    objective: Shared[f8] = of(GROUPS, fill=math.inf)
    descent: Shared[f8] = of(GROUPS)
    ended: bool = False


def suits(problem: Problem) -> bool:
    """Whether steps on a sample support this problem, and a Hessian of all lines is too wide."""
    if problem.resident or problem.holders > 1 or not problem.joint or not supports(problem):
        return False
    wide = problem.lines * (problem.features + 1) > WIDE_HESSIAN_COLUMNS
    return wide and factored(problem) and capacity(problem) >= LEAST_DRAWN_ROWS * (problem.features + 1)


def all_fit(problem: Problem) -> bool:
    """Whether all rows fit into memory, with the numbers that products keep of each."""
    return problem.resident or problem.size + problem.rows * row_beside(problem) <= problem.budget


def crowded(problem: Problem) -> bool:
    """Whether the sample is small, for its columns or as the numbers of a row take more room than its values.

    Its steps lead less far. With 200 classes it took 12 to 26 reads, and steps on the duals of a row 4 to 6
    (examples.benchmarks.softmax).
    """
    few = capacity(problem) < ENOUGH_DRAWN_ROWS * (problem.features + 1) or row_beside(problem) > row_bytes(problem) / 2
    return suits(problem) and not all_fit(problem) and few


def sample_bytes(problem: Problem) -> int:
    """Bytes of the sample, with the numbers of its rows."""
    left = problem.budget - _vectors(problem)
    left -= min(max(store.BUFFERS, left // BUFFER_BUDGET_PART), MOST_BUFFERS)
    return max(0, min(int(left / FULL_SAMPLE_RATIO), int(problem.rows * row_bytes(problem))))


def row_bytes(problem: Problem) -> float:
    """Mean bytes of a row of the sample, with the numbers beside it."""
    values = problem.values / problem.rows
    return row_beside(problem) + (values * (problem.dtype.itemsize + 4) + 8 if problem.sparse else values)


def row_beside(problem: Problem) -> int:
    """Bytes of the numbers of a row: scores, along and those of a product, and second derivatives."""
    return DRAWN_ROW_BYTES + 8 * 5 * problem.lines


def capacity(problem: Problem) -> float:
    """How many rows a sample has."""
    return sample_bytes(problem) / row_bytes(problem)


def _vectors(problem: Problem) -> int:
    """Bytes of the vectors of a step, of the eigenvectors of its preconditioner, and of the ranges of columns."""
    width = problem.features + 1
    return 8 * width * (8 * problem.count + 16 * problem.lines + 4) + 2 * 4 * width * width


class Sampled(Truncated[SampledState]):
    """Newton steps on a weighted sample of the rows, and exact gradients."""

    name = "newton's sample"
    mapped = False
    adds = ()
    loose = 0.05

    def all_labels(self, problem: Problem) -> bool:
        return False  # those of the sample lie beside its rows

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1
        return int(FULL_SAMPLE_RATIO * sample_bytes(problem)) + 8 * 8 * problem.lines * width + 4 * width * width

    def kept_bytes(self, problem: Problem) -> int:
        return sample_bytes(problem)

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        chunk = 8 * 5 * problem.lines * CURVED_CHUNK_ROWS
        return rows * (8 * problem.count + 6 * 8) + chunk + (size if sparse else 0)

    def fits(self, problem: Problem, state: SampledState) -> bool:
        width = 0 if problem.sparse else problem.features
        coding = state.drawn.rows.coding
        if any(one.dtype != np.float64 or one.shape not in ((0,), (width,)) for one in coding):
            return False
        kinds = [np.dtype(kind) for kind in (float, float, np.int16, float)]
        for kept in state.drawn.rows.pieces.values():
            if [one.dtype for one in kept.beside] != kinds or not all(one.ndim == 1 for one in kept.beside):
                return False
            own = SampleNumbers(*kept.beside)
            if not (problem.outputs.knows(own.codes) and np.all(own.chances > 0.0)):
                return False
        size, full = state.scores.size, state.drawn.rows.count * problem.lines
        whole = size == full or (size == 0 and not state.newton.begun)
        return whole and [state.curvatures.size, state.along.size] == [2 * size, size]

    def begin_pass(self, problem: Problem, state: SampledState, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        drawn = state.drawn
        coding = Coding.between(drawn.low, drawn.high) if drawn.known else PLAIN_CODING
        drawn.rows, drawn.limit, drawn.held, drawn.total = CodedRows(coding), math.inf, 0, 0.0
        state.ended, state.due[:] = False, False
        self._end(state)

    @staticmethod
    def _end(state: SampledState) -> None:
        """No step is under way."""
        state.newton.begun, state.steps = False, None
        state.scores, state.curvatures, state.along = np.zeros(0), np.zeros(0), np.zeros(0)

    def run_block(self, problem: Problem, state: SampledState, active: np.ndarray, block: Block, first: int) -> None:
        drawn, rows = state.drawn, block.rows()
        known = state.labels.cut(first, first + rows)
        present = known.present(slice(0, rows))
        chances = self._chances(problem, state, active, block, first, known)
        drawn.total += float(chances.sum())
        chances = np.where(present, np.maximum(chances, FLOOR * drawn.mean or LEAST_CHANCE), 0.0)
        if isinstance(block, DenseBlock) and not drawn.known and present.any():
            X = block.X if present.all() else block.X[present]
            np.minimum(drawn.low, X.min(axis=0), out=drawn.low)
            np.maximum(drawn.high, X.max(axis=0), out=drawn.high)
        keys = np.full(rows, math.inf)
        np.divide(
            pseudorandom(np.arange(first, first + rows), problem.seed, state.number), chances, keys, where=chances > 0.0
        )
        here = np.flatnonzero(keys < drawn.limit)
        if here.size:
            kept = drawn.rows.keep(block, first, first + here)
            weights = known.weights[here] if known.weights.size else np.ones(here.size)
            beside = SampleNumbers(keys[here], chances[here], known.codes[here], weights)
            drawn.rows.pieces[f"rows {first:015d}"] = kept._replace(beside=tuple(beside))
            drawn.held += int(_sizes(problem, kept).sum())
            drawn.rows.pool()
        if drawn.held > FULL_SAMPLE_RATIO * sample_bytes(problem):
            self._drop(problem, state)

    def _chances(
        self, problem: Problem, state: SampledState, active: np.ndarray, block: Block, first: int, known: RowLabels
    ) -> np.ndarray:
        """Add the sums of these rows; returns what each adds to the Hessians of the groups, as traces."""
        rows, lines = block.rows(), problem.lines
        labels, margins = labels_for(known, problem.outputs), np.zeros((1, problem.count, rows))

        def add(own: SampledState, leaf: Block, number: int) -> None:
            self.add_sums(problem, own, labels, active, leaf, numbered_from(number - first), margins)

        leaves.over(problem, state, block, first, add, sums=("sums",))
        traces = np.zeros(rows)
        for start in range(0, rows, CURVED_CHUNK_ROWS):
            stop = min(start + CURVED_CHUNK_ROWS, rows)
            some = labels_for(known.cut(start, stop), problem.outputs)
            for k in active.tolist():
                own = np.arange(k * lines, (k + 1) * lines)
                signs = np.stack([some.signs_of(line) for line in own], axis=1)
                scores = np.multiply(signs, margins[0, own, start:stop].T, order="C")
                curvatures = np.empty((stop - start, 2 * lines))
                kernel.find_bends(some, judge_of(problem.loss), k * lines, scores, curvatures)
                traces[start:stop] += (curvatures[:, :lines] - curvatures[:, lines:] ** 2).sum(axis=1)
        return traces * (_squares(block) + problem.column**2)

    def _drop(self, problem: Problem, state: SampledState) -> None:
        """Drop the rows with the largest keys, until the others fit."""
        drawn = state.drawn
        if not drawn.rows.count:
            return
        sizes = np.concatenate([_sizes(problem, kept) for kept in drawn.rows.pieces.values()])
        limit = store.threshold(drawn.rows.beside(0), sizes, sample_bytes(problem))
        if limit < drawn.limit:
            drawn.limit = limit
            drawn.rows.retain(lambda kept: kept.beside[0] < limit)
            drawn.held = int(sum(_sizes(problem, kept).sum() for kept in drawn.rows.pieces.values()))

    def end_pass(self, problem: Problem, state: SampledState, active: np.ndarray) -> PassReport | float:
        if not state.ended:
            state.ended = True
            self._drop(problem, state)
            if state.sums.rows == problem.rows:
                self._judge(problem, state, active)
            state.due &= state.drawn.rows.count > 0
        if state.due.any():
            k = int(np.argmax(state.due))
            if self.unit(problem, state, k, self._held(problem, state)):
                moved = problem.view(state.w, k) - problem.view(state.begun, k)
                state.descent[k] = -float(np.vdot(state.newton.gradient, moved))
            return 1.0 - float(state.due.sum()) / problem.groups
        report = self.report(problem, state)
        report.kept_rows = state.drawn.rows.count
        return report

    def skip_remaining(self, problem: Problem, state: SampledState) -> None:
        state.due[:] = False
        state.ended = True
        self._end(state)

    def _judge(self, problem: Problem, state: SampledState, active: np.ndarray) -> None:
        """Compute what the read proves, and which groups make a step; a step that led up is shortened."""
        drawn, proofs = state.drawn, self.prove(problem, state, active)
        drawn.mean, drawn.known = drawn.total / problem.present, not problem.sparse
        gaps = self.report(problem, state).estimate
        for k in active[gaps[active] > problem.tol].tolist():
            w, begun, objective = problem.view(state.w, k), problem.view(state.begun, k), proofs[k].weights.primal
            if objective - state.objective[k] > OF_OBJECTIVE * abs(objective):
                step = w - begun
                slope = float(np.vdot(self._gradient(problem, state, k), step))
                left = share_left(float(state.descent[k]), slope, float(np.vdot(step, step)))
                state.descent[k] *= left
                w[:] = begun + left * step
                continue
            state.objective[k], state.due[k], begun[:] = objective, True, w

    @staticmethod
    def _gradient(problem: Problem, state: SampledState, k: int) -> np.ndarray:
        """The gradient (lines, d+1) of the objective at the weights of this read."""
        pull = problem.view(state.sums.pull, k).sum(axis=1)
        return ridge(problem, problem.view(state.w, k)) - pull

    def rest(self, problem: Problem, state: SampledState, pull: np.ndarray) -> np.ndarray:
        return self._gradient(problem, state, state.newton.group) + pull

    def ends(self, problem: Problem, state: SampledState) -> bool:
        return True

    @staticmethod
    def _held(problem: Problem, state: SampledState) -> Held:
        """The sample, of which each row stands for 1 over its probability."""
        drawn, lines, at = state.drawn, problem.lines, 0
        size, parts = drawn.rows.count * lines, list[HeldPart]()
        if state.scores.size != size:
            state.scores, state.curvatures, state.along = np.zeros(size), np.zeros(2 * size), np.zeros(size)
        pieces = [drawn.rows.pieces[name] for name in sorted(drawn.rows.pieces)]
        chances, codes, weights = (np.concatenate([kept.beside[n] for kept in pieces]) for n in (1, 2, 3))
        known = RowLabels(codes, weights / np.minimum(1.0, drawn.limit * chances), np.empty(0))
        for kept in pieces:
            stop = at + kept.ids.size
            parts.extend(
                HeldPart(kept.rows, labels_for(known.cut(at, stop), problem.outputs), at, stop).pieces(problem)
            )
            at = stop
        scores, along = state.scores.reshape(-1, lines), state.along.reshape(-1, lines)
        curvatures = state.curvatures.reshape(-1, 2 * lines)
        return Held(parts, labels_for(known, problem.outputs), scores, curvatures, along, drawn.rows.coding)


def _sizes(problem: Problem, kept: Kept) -> np.ndarray:
    """The bytes (m,) of rows of the sample, with the numbers beside them."""
    return store.sizes_of(kept.rows) + row_beside(problem)


def _squares(block: Block) -> np.ndarray:
    """||x_i||^2 (m,) without the constant column."""
    values = values_of(block)
    if isinstance(block, CSRBlock):
        rows = np.repeat(np.arange(block.rows()), np.diff(block.indptr))
        return np.bincount(rows, np.square(values, dtype=np.float64), block.rows())
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)
