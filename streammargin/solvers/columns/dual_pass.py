"""A read that computes margins of two weight vectors, updates the duals of all rows, and certifies both."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from streammargin.compiled import largest
from streammargin.compiled import look as kernel
from streammargin.compiled import row_norms as norms
from streammargin.compiled.careful import margin_rounding
from streammargin.compiled.columns import add_squares
from streammargin.compiled.look import PART_SUMS
from streammargin.errors import DataError
from streammargin.kinds import YesNo
from streammargin.losses.base import largest_bend
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers import leaves
from streammargin.solvers.base import VISIT, PassReport, multiplications
from streammargin.solvers.columns.constant import largest_duals
from streammargin.solvers.columns.screening import TOO_FAR, proven_zeros
from streammargin.solvers.linear import LinearSolver, LinearState, keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, gaps_of, keep_bounds
from streammargin.solvers.proof.bounds import Bounds, OfDuals, balanced_group, bounded, weights_of_group
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.proof.sums import LINES, SIDES, SUNK, DualSums
from streammargin.solvers.roles import GROUPS, TRIALS, D, K, N, Rows, Shared, Sum, W, b1, clear, f8, i8, of, state
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit, nothing
from streammargin.words import entry

LAST, MEAN = range(2)  # the two weight vectors that a pass certifies
LARGEST_SAFE_NORM, SMALLEST_SAFE_NORM = 1e140, 1e-140  # of rows and columns: squares do not overflow


def budgets(problem: Problem) -> np.ndarray:
    """Bounds on the sums of the duals (K,), each dual divided by its entry of `largest_duals`."""
    return np.full(problem.count, problem.top) * problem.outputs.costs


@state
class PairSums(DualSums):
    """The sums of a read, with the losses of both weights."""

    losses: Sum[f8] = of(2, K, kernel.LOSS_SUMS, carried=kernel.LOSS_CARRIED)
    wrong: Sum[i8] = of(2, TRIALS)


@state
class Totals:
    """Sums over the passes since the last restart, for means."""

    passes: Shared[i8] = of(GROUPS)
    w: Shared[f8] = of(K, W)
    budget_multiplier: Shared[f8] = of(K)
    alpha: Rows[f8] = of(K, N)
    pull: Shared[f8] = of(K, SIDES, W)
    duals: Shared[f8] = of(K, SIDES, kernel.DUAL_SUMS)
    own: Shared[f8] = of(SUNK, W)
    parts: Shared[f8] = of(SUNK, PART_SUMS)

    def forget(self, problem: Problem, k: int) -> None:
        """Restart the means of group k."""
        self.passes[k] = 0
        for total in (self.w, self.budget_multiplier, self.alpha, self.pull, self.duals, self.own, self.parts):
            problem.view(total, k)[...] = 0


@state
class StepSizes:
    """Step sizes: tau = step / ratio * tempo, sigma = step * ratio; budget_tempo: of the budget multiplier."""

    tempo: Shared[f8] = of(LINES, W)
    budget_tempo: float = 1.0
    step: Shared[f8] = of(GROUPS)
    ratio: Shared[f8] = of(GROUPS)


@state
class Previous:
    """A^T alpha, sum alpha, w and the budget's multiplier of the previous pass."""

    image: Shared[f8] = of(K, W)
    mass: Shared[f8] = of(GROUPS)
    w: Shared[f8] = of(K, W)
    budget_multiplier: Shared[f8] = of(K)


@state
class Pair(LinearState):
    """Weights w, last and mean, and duals alpha.

    row_norms, squares: figures of the row norms, and squared column norms, from the prologue;
    rounding: eps ||w||; row_margins: of all rows at both weights, for a bound on the duals' sum; due:
    groups to advance after this read; gaps: of the last pair and of the mean; shown_mistakes, shown_wrong: of the
    better of the two.
    """

    workspace = of(K, W), of(6, W)  # copies of weights, and temporary vectors
    row_norms: Sum[f8] = of(norms.ROW_FIGURES, largest=(norms.LARGEST_NORM,))
    squares: Sum[f8] = of(D)
    w: Shared[f8] = of(2, K, W)
    budget_multiplier: Shared[f8] = of(2, K)
    rounding: Shared[f8] = of(2, K)
    alpha: Rows[f8]
    row_margins: Rows[f8] = of(2, K, N.where(lambda problem: problem.top < math.inf))
    read: PairSums
    totals: Totals
    pace: StepSizes
    previous: Previous
    zeros: Shared[b1] = of(K, W)
    due: Shared[b1] = of(GROUPS)
    gaps: Shared[f8] = of(GROUPS, 2)
    shown_mistakes: int = 0
    shown_wrong: Shared[i8] = of(TRIALS)
    ended: bool = False


class Pulled(NamedTuple):
    """A^T alpha of some duals, (d+1,) or (lines, d+1), and their sum as the bound counts it."""

    image: np.ndarray
    mass: float


def pulled(problem: Problem, k: int, sums: OfDuals, passes: int = 1) -> Pulled:
    """The mean of group k over this many passes, from the sums of their duals."""
    sides = problem.view(sums.duals, k)[..., kernel.ALPHA].tolist()
    counted = [mass / most for line in sides for mass, most in zip(line, largest_duals(problem), strict=False)]
    return Pulled(problem.of_group(sums.pull, k).sum(axis=-2) / passes, sum(counted) / passes)


P = TypeVar("P", bound=Pair)
Found = list[dict[int, Candidate]]  # for the LAST and the MEAN weights, by group


class DualPass(LinearSolver[P]):
    """Base class: subclasses define the step sizes of the duals and the next weights.

    The first pass is at w = 0, with the best constant if it is free, and computes the best duals there; if they are
    optimal, so is w = 0.
    """

    average: bool | None = entry(None, YesNo(), "show the mean of the iterates; no: the last one; none: the better one")
    prologue: ClassVar[int] = 1
    keeps_best: ClassVar[bool] = True  # of the passes; else the answer is that of the last one
    mapped = True
    adds: ClassVar[tuple[str, ...]] = ("read",)

    def dual_steps(self, problem: Problem, state: P) -> np.ndarray:
        """sigma (groups,), step size of the duals; 0: replace them by the best duals for the margins."""
        return state.pace.step * state.pace.ratio

    def resting(self, problem: Problem, state: P) -> np.ndarray:
        """Groups (groups,) bool whose duals do not change in this read."""
        return np.zeros(problem.groups, bool)

    def twice(self, problem: Problem, state: P) -> bool:
        """Whether a read sums duals that are one step ahead of the stored ones."""
        return False

    def duals(self, problem: Problem, state: P) -> np.ndarray:
        """The duals (K, n) that this read takes its steps from."""
        return state.alpha

    def margins(self, problem: Problem, state: P) -> np.ndarray:
        """Where this read stores the margins, (2, K, n), or (2, K, 0)."""
        return state.row_margins

    def first_weights(self, problem: Problem, state: P, k: int) -> None:
        """Set the first weights: 0, and the best constant if it is free."""

    @abstractmethod
    def first_pace(self, problem: Problem, state: P, mass: float, squares: np.ndarray) -> None:
        """Set the step sizes before the first pass; mass: total weight; squares (d+1,): of the column norms."""

    @abstractmethod
    def advance(self, problem: Problem, state: P, k: int, gaps: list[float]) -> None:
        """Compute the next weights of group k; gaps: of the last pair and of the mean."""

    def begin_at(self, problem: Problem, state: P, w: np.ndarray) -> None:
        state.w[:] = w

    # prologue: the norms of rows and columns

    def prologue_visit(self, problem: Problem, state: P, index: int) -> Visit:
        begin = self.set_first_weights if problem.path else nothing
        return Visit("prologue", self.prologue_block, leaves=not problem.path, lines=problem.count, begin=begin)

    def set_first_weights(self, problem: Problem, state: P) -> None:
        for k in range(problem.groups):
            self.first_weights(problem, state, k)

    def prologue_block(self, problem: Problem, state: P, block: Block, first: int) -> None:
        labels = state.labels.cut(first, first + block.rows())
        norms.row_norms(block, numbered_from(first), labels_of(problem, state), 2.0, state.row_norms)
        add_squares(block, labels.codes_of(0), labels.weights, state.squares)
        if problem.path:
            visit = self.visit(problem, state, np.arange(problem.groups))
            leaves.carry_out(problem, state, visit._replace(keeps=None), [(first, block)])

    def zero_factor(self, problem: Problem, state: P) -> float:
        found = [zero_factor(problem, state, k) for k in range(problem.groups)]
        state.alpha[:] = 0.0
        return min(found)

    def raise_costs(self, problem: Problem, state: P, factor: float) -> None:
        state.alpha *= factor
        state.previous.image *= factor
        state.previous.mass *= factor
        state.best.primal[:], state.best.dual[:] = math.inf, -math.inf
        state.zeros[:] = False
        for k in range(problem.groups):
            state.totals.forget(problem, k)

    # passes

    def begin_pass(self, problem: Problem, state: P, active: np.ndarray) -> None:
        if state.number == 1:
            self._begin(problem, state)
        state.ended = False
        state.due[:] = False
        done = problem.lines_of(problem.done(active))
        state.w[:, done], state.budget_multiplier[:, done] = state.best_w[done], 0.0  # their certified weights
        state.rounding = np.stack([blur(w) for w in state.w])
        clear(state.read)

    def _begin(self, problem: Problem, state: P) -> None:
        mass, squares = column_squares(problem, state)
        sizes, largest = np.sqrt(squares), float(state.row_norms[norms.LARGEST_NORM])
        least = float(sizes.min(initial=math.inf, where=sizes > 0.0))
        if not (max(largest, sizes.max()) <= LARGEST_SAFE_NORM and least >= SMALLEST_SAFE_NORM):
            raise DataError(TOO_FAR)
        self.first_pace(problem, state, mass, squares)
        if not problem.from_weights:
            self.set_first_weights(problem, state)

    def visit(self, problem: Problem, state: P, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(cost=2 * VISIT * problem.count)

    def run_block(self, problem: Problem, state: P, active: np.ndarray, block: Block, first: int) -> None:
        """Update the duals of these rows by their margins, and add the sums that certify weights and duals."""
        state.read.rows += block.rows()
        w, multiplier, read = state.w, state.budget_multiplier, state.read
        none, lines = np.zeros(problem.count), problem.lines_of(active)
        total = state.totals.alpha if state.number else state.totals.alpha[:, :0]
        same, alpha = alike(state), self.duals(problem, state)
        seen = slice(1 if same else 2)
        if not same:
            state.multiplications += multiplications([(first, block)], lines.size) / 2
        kernel.look(
            block, numbered_from(first), labels_of(problem, state), problem.loss, lines,
            kernel.Frozen(w[seen], multiplier[seen], state.rounding[seen]),
            kernel.Prox(alpha, alpha, self.curvatures(problem, state), none, self.twice(problem, state), total),
            kernel.Looked(
                read.losses[seen], read.duals, read.pull, read.wrong[seen], self.margins(problem, state), read.own,
                read.parts,
            ),
        )  # fmt: skip
        if same:
            read.losses[MEAN], read.wrong[MEAN] = read.losses[LAST], read.wrong[LAST]

    def curvatures(self, problem: Problem, state: P) -> np.ndarray:
        """1 / sigma of each line (K,); 0: the best duals for the margins, inf: duals that stay."""
        lengths = self.dual_steps(problem, state)
        found = np.divide(1.0, lengths, out=np.zeros(problem.groups), where=lengths > 0.0)
        found[self.resting(problem, state)] = math.inf
        return problem.by_line(found)

    def skip_remaining(self, problem: Problem, state: P) -> None:
        state.due[:] = False

    def end_pass(self, problem: Problem, state: P, active: np.ndarray) -> PassReport | float:
        count = problem.groups
        if state.read.rows < problem.rows:  # interrupted: it proves nothing
            shared = problem.compared and problem.joint
            mistakes = int(
                (state.read.wrong[LAST] if shared else state.read.losses[LAST, :, kernel.SUM_OF_MISTAKES]).sum()
            )
            return PassReport(np.full(count, math.inf), mistakes, best_figures(problem, state.best))
        if not state.ended:
            state.ended = True
            self.judge(problem, state, active)
            state.due[active] = True
        if state.due.any():
            k = int(np.argmax(state.due))
            self.advance(problem, state, k, state.gaps[k].tolist())
            state.due[k] = False
            return 1.0 - float(state.due.sum()) / count
        figures = best_figures(problem, state.best)
        wrong = state.shown_wrong.copy() if problem.compared else None
        return PassReport(gaps_of(figures), state.shown_mistakes, figures, wrong)

    def judge(self, problem: Problem, state: P, active: np.ndarray) -> None:
        """Set the bounds that the pass proves, and keep the weights to be shown."""
        if problem.top < math.inf:
            count_largest(problem, state, active)
        sum_weights(problem, state, active)
        sum_duals(problem, state, active)
        found = self.weigh(problem, state, active)
        self.keep(problem, state, found)
        self.prove_duals(problem, state, found)

    def weigh(self, problem: Problem, state: P, active: np.ndarray) -> Found:
        """The figures of the LAST and the MEAN weights of these groups."""
        w, losses, wrong = state.w, state.read.losses, state.read.wrong
        return [
            {k: weights_of_group(problem, k, w[v], losses[v], wrong[v]) for k in active.tolist()} for v in (LAST, MEAN)
        ]

    def prove_duals(self, problem: Problem, state: P, found: Found) -> None:
        """Set the bounds from the duals of this read and their means; found: what weights are worth."""
        duals = np.full(problem.groups, -math.inf)
        chosen = [LAST, MEAN] if self.average is None or self.keeps_best else [MEAN if self.average else LAST]
        proofs = {k: [prove(problem, state, v, k, found[v][k]) for v in (LAST, MEAN)] for k in found[LAST]}
        for k, pair in proofs.items():
            duals[k] = max(pair[v].dual for v in chosen)
            state.gaps[k] = [proof.apart for proof in pair]
        keep_bounds(state.best, duals, np.full(problem.groups, math.inf))
        for k, pair in proofs.items():
            _find_zeros(problem, state, k, pair[LAST])

    def keep(self, problem: Problem, state: P, found: Found) -> None:
        """Keep the better of the last weights and the mean ones, or those asked for, and what they are worth."""
        if self.average is not None and not self.keeps_best:
            state.best.primal[list(found[LAST])] = math.inf
        shown, state.shown_wrong[:] = _keep(problem, state, found, self.average)
        state.shown_mistakes = int(sum(candidate.mistakes for candidate in shown.values()))

    def zeros(self, problem: Problem, state: P) -> np.ndarray:
        return state.zeros[:, :-1]

    def weights(self, problem: Problem, state: P) -> np.ndarray:
        return state.w[LAST].copy()


def column_squares(problem: Problem, state: Pair) -> tuple[float, np.ndarray]:
    """(total weight of the rows, weighted squared norms of the columns (d+1,))."""
    labels = state.labels
    mass = float(labels.weights[labels.present(slice(None))].sum()) if labels.weights.size else problem.present
    return mass, np.append(state.squares, mass * problem.column**2)


def alike(state: Pair) -> bool:
    """Whether the last weights are the mean ones."""
    w, multiplier = state.w, state.budget_multiplier
    return np.array_equal(w[LAST], w[MEAN]) and np.array_equal(multiplier[LAST], multiplier[MEAN])


def count_largest(problem: Problem, state: Pair, active: np.ndarray) -> None:
    """Replace the sums of all losses by those of the largest, by the best multiplier for the margins of this read."""
    read, labels, longest = state.read, labels_of(problem, state), float(state.row_norms[norms.LARGEST_NORM])
    loss, reach, same = problem.loss, largest_duals(problem), alike(state)
    for k, v in ((k, v) for k in active.tolist() for v in ((LAST,) if same else (LAST, MEAN))):
        u, budget = state.row_margins[v, k], float(budgets(problem)[k])
        e = largest.multiplier(loss, labels, k, u, kernel.EMPTY_LINE[0], largest.TINY_CURVATURE, budget, reach)
        off = margin_rounding(problem.features + 2, longest, float(state.rounding[v, k]))
        total, slipped = largest.sum_losses(loss, labels, k, u, e, off)
        read.losses[v, k, kernel.SUM_OF_LOSSES], read.losses[v, k, kernel.ROUNDING] = total + budget * e, slipped
    if same:
        read.losses[MEAN] = read.losses[LAST]


def sum_weights(problem: Problem, state: Pair, active: np.ndarray) -> None:
    """Add the weights of this read to the totals."""
    lines = problem.lines_of(active)
    state.totals.w[lines] += state.w[LAST][lines]
    state.totals.budget_multiplier[lines] += state.budget_multiplier[LAST, lines]


def sum_duals(problem: Problem, state: Pair, active: np.ndarray) -> None:
    """Add the sums over the duals of this read to the totals."""
    totals, read, lines = state.totals, state.read, problem.lines_of(active)
    totals.passes[active] += 1
    totals.pull[lines] += read.pull[lines]
    totals.duals[lines] += read.duals[lines]
    if read.own.size:
        totals.own[lines] += read.own[lines]
        totals.parts[lines] += read.parts[lines]


def prove(problem: Problem, state: Pair, which: int, k: int, weights: Candidate) -> Bounds:
    """The bounds from the LAST or MEAN duals of group k, beside what its weights are worth."""
    sums, passes = (state.read, 1) if which == LAST else (state.totals, int(state.totals.passes[k]))
    budget = float(budgets(problem)[k * problem.lines])
    theta, total = balanced_group(problem, k, sums, passes, budget, largest_duals(problem))
    return bounded(problem.objective, weights, theta, total)


def zero_factor(problem: Problem, state: Pair, k: int) -> float:
    """The factor up to which C can grow with w = 0 still optimal, as proven by the duals of this read."""
    budget = float(budgets(problem)[k * problem.lines])
    image, _ = balanced_group(problem, k, state.read, 1, budget, largest_duals(problem))
    return problem.objective.penalty.zero_factor(problem.objective.penalised(image))


def _keep(problem: Problem, state: Pair, found: Found, average: bool | None) -> tuple[dict[int, Candidate], np.ndarray]:
    """Keep the better of the last weights and the mean ones, or those asked for, of all groups that are compared.

    Returns what they are worth, and the rows whose class does not have the largest score.
    """
    each = problem.groups // problem.trials  # groups of a value of C
    size, wrong = each if problem.compared else 1, state.read.wrong
    w, chosen, shown = state.w[LAST].copy(), dict(found[LAST]), wrong[LAST].copy()
    for start in range(0, problem.groups, size):
        trial, groups = start // each, [k for k in range(start, start + size) if k in chosen]
        better = sum(found[MEAN][k].primal for k in groups) < sum(found[LAST][k].primal for k in groups)
        if better if average is None else average:
            lines = problem.lines_of(np.array(groups, np.int64))
            w[lines], shown[trial] = state.w[MEAN, lines], wrong[MEAN, trial]
            chosen.update({k: found[MEAN][k] for k in groups})
    keep_weights(problem, state, w, [chosen.get(k) for k in range(problem.groups)])
    return chosen, shown


def _find_zeros(problem: Problem, state: Pair, k: int, proof: Bounds) -> None:
    """Mark columns that the last duals prove to be 0, for a loss of bounded curvature."""
    most = largest_bend(problem.loss)
    if problem.joint or most == math.inf or budgets(problem)[k] < math.inf:
        return
    bend = most * problem.outputs.largest_cap(k) * column_squares(problem, state)[1]
    state.zeros[k] |= proven_zeros(problem, k, state.best, proof, bend)
