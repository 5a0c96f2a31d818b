"""The base of all completions of a matrix: the look, which certifies factors, and the answer.

    P(X) = ||X||_* + C sum_e l(x_e)       D(u) = -C sum_e l*(u_e), where T = C sum_e u_e e_i e_j^T has ||T||_2 <= 1

The sum of the terms of all entries is l (losses/ratings.py). Duals u are scaled by the best q with q ||T||_2 <= 1, for
a proven upper bound of ||T||_2 (spectral.py). For that, entries come line by line of the longer side of the matrix.
Both figures are of one look. A last one is at the factors of the answer, and keeps what proves its bound.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from streammargin.compiled import ratings as kernel
from streammargin.compiled.ratings import SUMS
from streammargin.errors import DataError
from streammargin.points.factors import Factors
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.solvers.base import IN_ONE_PLACE, MATRICES, NUMBERS, PATH, Method, PassReport, Solver
from streammargin.solvers.completion.spectral import Spectrum, spectrum
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.kept import BestKept
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.roles import Axis, Count, N, Rows, Shared, entries, f8, i8, of, state
from streammargin.solvers.state import State
from streammargin.solvers.visits import Visit
from streammargin.wording import warn

SIDES = Axis(lambda problem: sum(problem.sides), name="rows + columns")
LEFT = Axis(lambda problem: problem.sides[0], name="rows")
RIGHT = Axis(lambda problem: problem.sides[1], name="columns")
HARD = 1e-300  # a softness with which duals are derivatives of the losses
SHORT_SIDE = Axis(lambda problem: min(problem.sides), name="the fewer of both")
LONG_SIDE = Axis(lambda problem: max(problem.sides), name="the more of both")
DENSE_ROWS = 256  # rows of a dense matrix at a time
LOOK_TASK = "look"  # of a pass
DIRECTIONS = 12  # singular vectors that a look finds
KINK = 32  # bytes of an entry that is kept, and copied as others follow
AT_KINK_SHARE = 1e-9  # of its size: an entry so near a kink is at it, as rounding may put it on either side
ENTRY_TILE = 1 << 15  # entries at a time


def terms(problem: Problem) -> int:
    """How many numbers are kept of an entry: one for each term of a loss with kinks, none of a smooth one."""
    return 0 if getattr(problem.loss, "bend", 1.0) > 0.0 else int(problem.loss.terms)


TERMS = Axis(terms, name="terms or 0")


@state
class MatrixState(State):
    """factors: (rows + columns, r), those of the rows of the matrix first; best: those of the best figures.

    `centres`: of the duals of entries. `sums`: of the current pass (compiled/ratings.py). `task`: what it is for.
    `line`, `places`, `values`: the entries of a line of the matrix that the next block may go on with. `gap`: the
    relative gap that was proven; `seen`: entries of this pass. `softness`: of the losses; `shown`: last proven;
    `before`: of the last duals, if the centres are to move to them, else -1.

    `gram`            the lower triangle of T T^T, for the matrix T of C times the duals, with its shorter side first.
    `kinks`, `duals`  entries whose duals do not follow from the best factors, once the run has ended.
    `settled`         whether these are known.
    `lost`            whether they took too much memory.
    """

    factors: Shared[f8] = of(SIDES, 0, grows=True)
    best_factors: Shared[f8] = of(SIDES, 0, grows=True)
    centres: Rows[f8] = of(TERMS, N)
    sums: Shared[f8] = of(SUMS)
    places: Shared[i8] = of(0, grows=True)
    values: Shared[f8] = of(0, grows=True)
    gram: Shared[f8] = of(SHORT_SIDE, SHORT_SIDE)
    kinks: Shared[i8] = of(0, grows=True)
    duals: Shared[f8] = of(0, grows=True)
    task: str = "look"
    line: float = -1.0
    seen: Count = 0
    gap: float = np.inf
    softness: float = HARD
    shown: float = HARD
    before: float = -1.0
    settled: bool = False
    lost: bool = False


@state
class FactorsState(MatrixState):
    """gradient: at the factors, which are `start` plus `length` times `direction`; slopes, goal: gradient and objective
    at `start`, slope: that along the direction.

    `moves`, `changes`: steps and changes of the gradient, one after the other; the last `pairs` count. `vectors`,
    `weights`: directions in which the factors are to grow, and how much. `made`: steps since the last proof; `wanted`:
    the fall of the objective that a step is worth, less if strict is below 1; `tried`: `factors` are a try; `grown`:
    they have grown.
    """

    gradient: Shared[f8] = of(SIDES, 0, grows=True)
    start: Shared[f8] = of(SIDES, 0, grows=True)
    slopes: Shared[f8] = of(SIDES, 0, grows=True)
    direction: Shared[f8] = of(SIDES, 0, grows=True)
    moves: Shared[f8] = of(0, grows=True)
    changes: Shared[f8] = of(0, grows=True)
    vectors: Shared[f8] = of(SIDES, 0, grows=True)
    weights: Shared[f8] = of(0, grows=True)
    pairs: int = 0
    made: int = 0
    tried: bool = False
    grown: bool = False
    length: float = 0.0
    slope: float = 0.0
    goal: float = np.inf
    wanted: float = 0.0
    strict: float = 1.0


@state
class SplittingState(MatrixState):
    """matrix, other: M and V of Douglas-Rachford, dense; weight: of its squares.

    made: steps; next_look: the step that a look follows.
    """

    workspace = (
        of(4, SHORT_SIDE, SHORT_SIDE),
        of(2, SHORT_SIDE, SIDES),
        of(DENSE_ROWS, LONG_SIDE),
    )  # of an eigendecomposition, and of a step
    matrix: Shared[f8] = of(LEFT, RIGHT)
    other: Shared[f8] = of(LEFT, RIGHT)
    weight: float = 0.0
    made: int = 0
    next_look: int = 4


S = TypeVar("S", bound=MatrixState)


class LookedAtFactors(NamedTuple):
    """The result of a look: the factors' figures, the spectrum of T, and how much of the gap is that of soft losses."""

    primal: float
    dual: float
    rounding: float
    spectrum: Spectrum
    outer: float


class Completing(Method):
    """What all words that complete a matrix from some entries support: the trace norm."""

    requires: ClassVar[tuple[str, ...]] = ("rated",)
    takes: ClassVar[tuple[str, ...]] = (MATRICES, NUMBERS, PATH)

    def look_work(self, problem: Problem) -> float:
        return 200.0 * problem.loss.terms

    def prologue_passes(self, problem: Problem) -> int:
        return int(problem.path)


class MatrixSolver(Completing, Solver[S]):
    """One solver of them, which certifies its factors."""

    mapped: ClassVar[bool] = True
    whole = IN_ONE_PLACE  # entries come in their order

    def all_labels(self, problem: Problem) -> bool:
        return False

    # a read of the entries

    def visit(self, problem: Problem, state: S, active: np.ndarray) -> Visit:
        rank = state.factors.shape[1]
        visit = super().visit(problem, state, active)
        return visit._replace(name=state.task, leaves=False, lines=rank, cost=4.0 * rank + 50.0, order=in_order)

    def begin_pass(self, problem: Problem, state: S, active: np.ndarray) -> None:
        self.clear(problem, state, state.task == LOOK_TASK)

    def clear(self, problem: Problem, state: S, look: bool = True) -> None:
        """Begin a read; look: one that certifies."""
        state.sums[:], state.seen = 0.0, 0
        state.line, state.places, state.values = -1.0, np.empty(0, np.int64), np.empty(0)
        state.kinks, state.duals, state.settled, state.lost = np.empty(0, np.int64), np.empty(0), False, False
        if look:
            state.gram[:] = 0.0

    def duals(
        self, problem: Problem, state: S, pairs: np.ndarray, first: int, before: float = -1.0, proven: bool = False
    ) -> np.ndarray:  # fmt: skip
        """The duals (m,) of entries at the factors, or at the best ones (proven); adds to the sums."""
        at = state.labels.at(slice(first, first + len(pairs)))
        values, found = state.labels.targets[at], np.empty(len(pairs))
        rows, loss = problem.sides[0], tuple(problem.loss)
        factors, softness = (state.best_factors, state.shown) if proven else (state.factors, state.softness)
        kernel.duals_at(pairs, values, factors, rows, loss, state.centres, first, softness, before, state.sums, found)
        state.seen += len(pairs)
        return found

    def look_block(self, problem: Problem, state: S, block: Block, first: int) -> None:
        """Add entries to what a look sums up."""
        pairs = pairs_of(block)
        duals = self.duals(problem, state, pairs, first)
        self.add_to_gram(problem, state, pairs, cost_of(problem) * duals)

    def add_to_gram(self, problem: Problem, state: S, pairs: np.ndarray, duals: np.ndarray) -> None:
        """Add the entries that are complete lines to T T^T; those of the last line wait for the next block."""
        side = short_side(problem)
        lines = pairs[:, 1 - side]
        ends = np.flatnonzero(np.diff(lines)) + 1
        head = int(ends[0]) if ends.size else len(pairs)
        if state.line == lines[0]:
            state.places = np.append(state.places, pairs[:head, side].astype(np.int64))
            state.values = np.append(state.values, duals[:head])
        else:
            self.close_line(state)
            state.places, state.values = pairs[:head, side].astype(np.int64), duals[:head].copy()
        state.line = float(lines[-1])
        if not ends.size:
            return
        self.close_line(state)
        kernel.add_lines(pairs, duals, side, ends, state.gram)
        tail = int(ends[-1])
        state.places, state.values = pairs[tail:, side].astype(np.int64), duals[tail:].copy()

    def close_line(self, state: S) -> None:
        """Add the line that has waited to T T^T."""
        kernel.add_gram(state.places, state.values, state.gram)
        state.places, state.values = state.places[:0], state.values[:0]

    # figures

    def see(self, problem: Problem, state: S) -> LookedAtFactors:
        """Figures of the factors at the end of a look; those of the smallest gap are kept."""
        seen, state.shown = self.figures(problem, state, state.factors), state.softness
        if seen.primal - seen.dual < state.best.primal[0] - state.best.dual[0]:
            self.keep(problem, state, seen)
            state.best_factors = state.factors.copy()
        return seen

    def keep(self, problem: Problem, state: S, seen: LookedAtFactors) -> None:
        """Keep these figures as the best ones."""
        state.best.primal[:], state.best.dual[:], state.best.rounding[:] = seen[:3]
        gap = best_figures(problem, state.best)[0].gap
        state.gap = math.inf if gap is None else gap

    def figures(self, problem: Problem, state: S, both: np.ndarray) -> LookedAtFactors:
        """Figures of factors whose entries were read."""
        self.close_line(state)
        found = spectrum(state.gram, DIRECTIONS)
        C, sums = cost_of(problem), state.sums
        factors = factors_of(problem, both)
        norm = factors.norm()
        primal = norm + C * float(sums[kernel.ENTRY_LOSSES])
        rounding = EPS * (problem.rows + 8.0 * factors.rank + 8.0) * (C * float(sums[kernel.SIZE]) + norm)
        dual = best_scale(C * float(sums[kernel.LINEAR]), C * float(sums[kernel.SQUARE]), problem, found.upper)
        outer = C * float(sums[kernel.ENTRY_LOSSES] - sums[kernel.ATTAINED])
        return LookedAtFactors(primal, dual - rounding, rounding, found, outer)

    def report(self, problem: Problem, state: S, still: bool = False) -> PassReport:
        """The proven figures so far."""
        known = math.isfinite(state.best.primal[0]) and not still  # if all ends, a look at the best follows
        figures = best_figures(problem, state.best) if known else None
        return PassReport(np.array([min(state.gap, 1e300)]), 0, certificate=figures, still=still)

    @abstractmethod
    def after(self, problem: Problem, state: S, seen: LookedAtFactors) -> bool:
        """Decide what follows a look; returns whether nothing more can be done."""

    @abstractmethod
    def end_step(self, problem: Problem, state: S) -> None:
        """The step after a pass that is no look."""

    def end_pass(self, problem: Problem, state: S, active: np.ndarray) -> PassReport | float:
        still = False
        if state.seen == problem.rows:
            if state.task == LOOK_TASK:
                still = self.after(problem, state, self.see(problem, state))
            else:
                self.end_step(problem, state)
        return self.report(problem, state, still)

    # the last certificate, and the beginning of a path

    def unsettled(self, problem: Problem, state: S) -> bool:
        return not (state.settled or state.lost)

    def certificate(self, problem: Problem, state: S, active: np.ndarray) -> Visit:
        visit = super().certificate(problem, state, active)
        return visit._replace(leaves=False, lines=1, order=in_order)

    def begin_certificate(self, problem: Problem, state: S, active: np.ndarray) -> None:
        if not math.isfinite(state.best.primal[0]):
            state.best_factors = state.factors.copy()
        self.clear(problem, state)

    def certify_block(self, problem: Problem, state: S, block: Block, first: int) -> None:
        pairs = pairs_of(block)
        duals = self.duals(problem, state, pairs, first, proven=True)
        self.add_to_gram(problem, state, pairs, cost_of(problem) * duals)
        if terms(problem) and not state.lost:
            self.keep_kinks(problem, state, pairs, first, duals)

    def keep_kinks(self, problem: Problem, state: S, pairs: np.ndarray, first: int, duals: np.ndarray) -> None:
        """Keep the duals that the factors do not tell, if the memory has room for them."""
        places = pairs.astype(np.int64)
        x = factors_of(problem, state.best_factors).at(places[:, 0], places[:, 1])
        values = state.labels.targets[state.labels.at(slice(first, first + len(pairs)))]
        kinks = kinks_of(x, values, problem.loss, duals)
        count, own = state.kinks.size + kinks.size, [getattr(state, entry.name) for entry in entries(type(state))]
        held = sum(array.nbytes for array in own if isinstance(array, np.ndarray))
        if KINK * count > self.memory(problem) - held:
            state.lost, state.kinks, state.duals = True, np.empty(0, np.int64), np.empty(0)
            text = (
                f"the duals of more than {count} entries do not fit into the memory, so verify cannot recompute the gap"
            )
            warn(text, "proof")
            return
        state.kinks = np.append(state.kinks, places[kinks, 0] * problem.sides[1] + places[kinks, 1])
        state.duals = np.append(state.duals, duals[kinks])

    def end_certificate(self, problem: Problem, state: S) -> tuple[list[Figures], np.ndarray]:
        self.keep(problem, state, self.figures(problem, state, state.best_factors))
        state.settled = not state.lost
        return best_figures(problem, state.best), np.zeros(problem.trials, np.int64)

    def prologue_visit(self, problem: Problem, state: S, index: int) -> Visit:
        return Visit("prologue", self.look_block, leaves=False, lines=1, begin=self.clear, order=in_order)

    def zero_factor(self, problem: Problem, state: S) -> float:
        self.close_line(state)
        found = spectrum(state.gram, 1)
        return 1.0 / found.upper if found.upper > 0.0 else 0.0

    def raise_costs(self, problem: Problem, state: S, factor: float) -> None:
        state.best.primal[:], state.best.dual[:] = math.inf, -math.inf
        state.task, state.before = LOOK_TASK, -1.0

    # the answer

    def keep_pass(self, problem: Problem, state: S, kept: BestKept, trials: list[int]) -> None:
        raise AssertionError("factors are kept by their certificate alone")

    def point(self, problem: Problem, state: S, column: float, proven: bool, kept: BestKept | None = None) -> Factors:
        certified = math.isfinite(state.best.primal[0])
        found = factors_of(problem, state.best_factors if certified else state.factors)
        found.proof = (state.kinks, state.duals) if state.settled else None
        return found.balanced()

    def fits(self, problem: Problem, state: S) -> bool:
        known = (LOOK_TASK, *self.tasks)
        places = state.places
        inside = not places.size or (places.min() >= 0 and places.max() < min(problem.sides))
        return state.task in known and inside and places.size == state.values.size

    tasks: ClassVar[tuple[str, ...]] = ()


def in_order(problem: Problem, state: MatrixState, blocks: int) -> np.ndarray:
    """The order of the entries."""
    return np.arange(blocks)


def cost_of(problem: Problem) -> float:
    """C."""
    return float(problem.outputs.costs[0])


def size_of(problem: Problem, state: MatrixState) -> float:
    """The size of a rating, by the losses at X = 0."""
    size = float(problem.loss.unit) or max(float(state.sums[kernel.ENTRY_LOSSES]) / problem.rows, 1e-300)
    return size if terms(problem) else math.sqrt(size)


def short_side(problem: Problem) -> int:
    """Which place of an entry is on the shorter side of the matrix."""
    return 0 if problem.sides[0] <= problem.sides[1] else 1


def factors_of(problem: Problem, both: np.ndarray) -> Factors:
    """Factors (rows + columns, r) as a point."""
    return Factors(both[: problem.sides[0]], both[problem.sides[0] :])


def pairs_of(block: Block) -> np.ndarray:
    """The places (m, 2) of the entries of a block."""
    assert isinstance(block, DenseBlock)
    return block.X


def best_scale(linear: float, square: float, problem: Problem, upper: float) -> float:
    """The dual -q linear - q^2 square at the best q, given ||T||_2 <= upper. DataError if it is not finite."""
    most = 1.0 / upper if upper > 0.0 else math.inf
    if terms(problem):
        most = min(1.0, most)
    if math.isnan(linear + square) or upper == math.inf:
        raise DataError("the ratings or C are too large to compute with; divide the ratings by a constant")
    q = most if linear < 0.0 else 0.0
    if square > 0.0:
        q = min(max(-linear / (2.0 * square), 0.0), most)
    return -q * linear - q * q * square if q < math.inf else 0.0


def kinks_of(x: np.ndarray, values: np.ndarray, loss: Any, duals: np.ndarray) -> np.ndarray:
    """Indices of the entries whose duals, added up over the terms of the loss, are not its slope at x."""
    found = [np.empty(0, np.int64)]
    for low in range(0, x.size, ENTRY_TILE):
        here = slice(low, low + ENTRY_TILE)
        found.append(low + _kinks(x[here], values[here], duals[here], loss))
    return np.concatenate(found)


def _kinks(x: np.ndarray, values: np.ndarray, duals: np.ndarray, loss: Any) -> np.ndarray:
    if loss.levels.size:
        above = values[:, None] > loss.levels
        z, low, high = loss.at + np.where(above, 1.0, -1.0), np.where(above, -1.0, 0.0), np.where(above, 0.0, 1.0)
    else:
        z, low, high = values[:, None], np.array(loss.low), np.array(loss.high)
    apart = x[:, None] - z
    near = np.abs(apart) <= AT_KINK_SHARE * (np.abs(x[:, None]) + np.abs(z))
    slopes = np.where(apart > 0.0, high, low).sum(axis=1)
    return np.flatnonzero(near.any(axis=1) | (slopes != duals))
