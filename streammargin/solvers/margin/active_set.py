"""Maximum margin by an active set: solve the problem of a few hundred rows exactly, then check all rows in one read.

If the support becomes too large, coordinate ascent continues from its duals.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from streammargin.compiled import row_norms as norms
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block, stored
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import MarginSizes, PassReport, Share, Stage
from streammargin.solvers.cache.rows import Coming, RowCache
from streammargin.solvers.coordinate.ascent import check_hard_margin
from streammargin.solvers.coordinate.dual_ascent import DualAscent, Norms
from streammargin.solvers.coordinate.momentum import MomentumAscent
from streammargin.solvers.margin import small_problem
from streammargin.solvers.margin.small_problem import ASCENT, SmallProblems
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.margins import pieces, sum_margins
from streammargin.solvers.proof.objectives.hard_margin import TINY
from streammargin.solvers.proof.whole_pass import PassSums, Whole, WholePass
from streammargin.solvers.roles import EVERY_COLUMN, Axis, Count, K, Lists, Shared, Sum, f8, i8, new, of, state, u1
from streammargin.solvers.state import DONE, OWN_STEPS, READ, VECTOR_CHUNK_ROWS, State, labels_for, labels_of

ZERO_MARGIN = 1e-13  # a margin below this times the mean row norm counts as 0
SIDES = Axis(lambda problem: 2 * problem.count, name="2K")


@state
class ActiveSums(PassSums):
    """The sums of proof/margins.py for w."""

    smallest: Sum[f8] = of(K, smallest=EVERY_COLUMN)
    mistakes: Sum[i8] = of(K)
    wrong: Sum[i8] = of(1)


@state
class Heaps:
    """The rows of each sign with the smallest margins so far, in order."""

    keys: Shared[f8] = of(SIDES, 0, grows=True)
    ids: Shared[i8] = of(SIDES, 0, grows=True)
    filled: Shared[i8] = of(SIDES)

    def take(self, line: int, margins: np.ndarray, first: int) -> None:
        """Keep the rows with the smallest margins, also of these rows from `first` on; inf: it has another sign."""
        count, capacity = int(self.filled[line]), self.keys.shape[1]
        here = np.flatnonzero(margins < (self.keys[line, -1] if count == capacity else math.inf))
        keys = np.append(self.keys[line, :count], margins[here])
        ids = np.append(self.ids[line, :count], first + here)
        order = np.lexsort((ids, keys))[:capacity]
        self.filled[line] = order.size
        self.keys[line, : order.size], self.ids[line, : order.size] = keys[order], ids[order]


@state
class ActiveSetState(Whole):
    """The state of passes and small problems.

    `small`    the small problems.
    `new`      rows, piece k for problem k, that the pass found for them. The first pass draws them.
    `values`   stored in all rows.
    `crowded`  new rows did not fit.
    `step`     READ, then OWN_STEPS while the small problem is to be solved, then DONE.

    At the end of a pass upper and following are bounds and weights of the small problems. progress: every solution
    improved the bound.
    """

    sums: ActiveSums
    heaps: Heaps
    small: SmallProblems
    new: RowCache
    drawn: Lists[i8]
    values: Count = 0
    crowded: bool = False
    step: Shared[u1] = of(K, fill=DONE)
    upper: Shared[f8] = of(K)
    following: Shared[f8]
    progress: bool = True


class Exact(WholePass[ActiveSetState]):
    """Every pass checks all rows with w frozen, so it is the certificate of w; it collects the rows with the smallest
    margins. These rows and the ones kept (the support so far, and the rows next to it) make a small problem, which is
    solved exactly. Its maximum margin bounds the one over all rows from above, and its solution is the next w. The
    first pass takes rows at random, unless it begins at given weights.
    """

    name = "active-set"
    prologue = 0
    requires: ClassVar[tuple[str, ...]] = (*DualAscent.requires, "has_hard_margin")  # those of the ascent

    def check(self, problem: Problem) -> None:
        super().check(problem)
        check_hard_margin(problem, self.default_loss)

    def reserved_bytes(self, problem: Problem) -> int:
        heaps = problem.count * 2 * small_problem.SIDE * 16
        # the small problems are freed before the duals of the ascent are allocated
        return heaps + max(small_problem.most_bytes(problem), ASCENT.memory(problem))

    def fits(self, problem: Problem, state: ActiveSetState) -> bool:
        heaps, capacity = state.heaps, state.heaps.keys.shape[1]
        filled = bool(np.all((heaps.filled >= 0) & (heaps.filled <= capacity)))
        return heaps.ids.shape[1] == capacity and filled and small_problem.fit(state.small)

    def begin_at(self, problem: Problem, state: ActiveSetState, w: np.ndarray) -> None:
        state.w[:] = w

    def begin_pass(self, problem: Problem, state: ActiveSetState, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.step[:], state.new = READ, RowCache()
        draws = _draws(problem, state)
        if draws:
            state.drawn = [
                np.sort(np.concatenate([_draw(problem, state, k, side) for side in (True, False)]))
                for k in range(problem.count)
            ]
        capacity, lines = 0 if draws else self._capacity(problem, state), 2 * problem.count
        state.heaps = Heaps(
            keys=np.zeros((lines, capacity)),
            ids=np.zeros((lines, capacity), np.int64),
            filled=np.zeros(lines, np.int64),
        )

    def _capacity(self, problem: Problem, state: ActiveSetState) -> int:
        """Rows of either sign that the pass adds."""
        # a large support is still far from complete: as many again, if there is room
        support = max(int(np.count_nonzero(u)) for u in state.small.u)
        free = small_problem.limit(problem) - max(u.size for u in state.small.u)
        return max(1, min(max(small_problem.SIDE, support), free // 2))

    def run_block(self, problem: Problem, state: ActiveSetState, active: np.ndarray, block: Block, first: int) -> Share:
        state.sums.seen += block.rows()
        sums, heaps = state.sums, state.heaps
        numbers, labels = numbered_from(first), labels_of(problem, state)
        if state.number == 1:
            state.values += stored(block)
            norms.row_norms(block, numbers, labels, 2.0, state.row_norms)
        for seen in pieces(state.labels, problem.outputs, block, first):
            margins = sum_margins(problem, seen.labels, seen.scores(state.w), sums.smallest, sums.mistakes, sums.wrong)
            for k, u in enumerate(margins if heaps.keys.size else ()):
                own = seen.labels.own_of(k)
                heaps.take(2 * k, np.where(own, math.inf, u), seen.first)
                heaps.take(2 * k + 1, np.where(own, u, math.inf), seen.first)
        for k in active:
            self._collect(problem, state, k, block, first, self._wanted(problem, state, k))
        return None

    def _wanted(self, problem: Problem, state: ActiveSetState, k: int) -> np.ndarray:
        """Numbers of the rows that are new to problem k, as far as the pass has come."""
        if _draws(problem, state):
            return state.drawn[k]
        heaps = [state.heaps.ids[line, : state.heaps.filled[line]] for line in (2 * k, 2 * k + 1)]
        return np.setdiff1d(np.concatenate(heaps), small_problem.ids(state.small, k))

    def _collect(
        self, problem: Problem, state: ActiveSetState, k: int, block: Block, first: int, wanted: np.ndarray
    ) -> None:
        """Copy the wanted rows from the block, and drop earlier copies that are no longer wanted."""
        if state.crowded:
            return
        name, here = str(k), wanted[(wanted >= first) & (wanted < first + block.rows())] - first
        still = np.flatnonzero(np.isin(state.new.ids_of(name), wanted))
        state.new.change(name, still, [Coming(first, block, here)] if here.size else ())
        if name in state.new.pieces and stored(state.new.pieces[name].rows) > small_problem.most_entries(problem):
            state.crowded, state.new = True, RowCache()

    def skip_remaining(self, problem: Problem, state: ActiveSetState) -> None:
        self._list(state, np.empty(0, np.int64))

    def _list(self, state: ActiveSetState, problems: np.ndarray) -> None:
        """The small problems that are to be solved, before the pass is reported; if it began, all of them."""
        if READ in state.step:
            state.progress = True
            state.upper[:], state.following[:] = math.inf, state.w
        state.step[:] = DONE
        state.step[problems] = OWN_STEPS

    def end_pass(self, problem: Problem, state: ActiveSetState, active: np.ndarray) -> PassReport | float:
        if READ in state.step:
            if state.number == 1:
                self.check_scale(state)
            self._list(state, active)
        if OWN_STEPS in state.step:
            k = state.step.tolist().index(OWN_STEPS)
            self._improve(problem, state, k)
            state.step[k] = DONE
            return 1.0 - float(np.mean(state.step == OWN_STEPS))
        sums = state.sums
        if state.number == 1 and problem.from_weights:  # of any length: their smallest margin becomes 1
            length = np.where(sums.smallest > 0.0, sums.smallest, 1.0)
            state.w, sums.smallest = state.w / length[:, None], sums.smallest / length
        wrong = sums.wrong.copy() if problem.count > 1 else None
        report = self.report(problem, state, state.w, sums.smallest, state.upper, sums.mistakes, wrong)
        state.w = state.following.copy()
        return report

    def _improve(self, problem: Problem, state: ActiveSetState, k: int) -> None:
        """A better bound and the next weights of problem k, if it is not within the tolerance."""
        best, size = state.best, lp_norm(state.w[k], 2.0)
        lower = state.sums.smallest[k] / size if size > 0.0 else -math.inf
        if problem.count == 1:
            lower = max(lower, float(best.lower[k]))
        if lower >= (1.0 - min(problem.tol, 1.0)) * best.upper[k] or state.row_norms[norms.EMPTY] > 0.0:
            return
        # no progress if the most violating row is not new: then rounding dominates
        if _worst(state.heaps, k) in small_problem.ids(state.small, k) or not self._extend(problem, state, k):
            state.progress = False
            return
        solved = small_problem.solve(problem, state.small, k, self.largest_norm(state))
        state.upper[k], state.following[k] = max(solved.bound, TINY), solved.w
        near = self.rounded_up(problem, state, state.upper)[k] < self.margin_sizes(problem, state).least
        if near and small_problem.cancel(problem, state.small, k):
            state.upper[k] = 0.0
        state.multiplications += solved.multiplications
        state.progress &= bool(state.upper[k] < (1.0 - 1e-3 * problem.tol) * best.upper[k])

    def _extend(self, problem: Problem, state: ActiveSetState, k: int) -> bool:
        """Take in the new rows of problem k; False if there are none, or no room for them."""
        ids = state.new.ids_of(str(k))
        if not ids.size:
            return False
        signs = labels_for(state.labels.of(ids), problem.outputs).signs_of(k)
        # coordinate ascent needs squares of the norms
        able = 1e-100 < self.largest_norm(state) < 1e100
        worth = small_problem.worth(problem, state.values) if able else math.inf
        return small_problem.extend(problem, state.small, k, state.new, signs, worth)

    def rounded_up(self, problem: Problem, state: ActiveSetState, upper: np.ndarray) -> np.ndarray:
        return np.where(upper == 0.0, 0.0, super().rounded_up(problem, state, upper))

    def margin_sizes(self, problem: Problem, state: ActiveSetState) -> MarginSizes:
        # exact solutions come to 0 at once if nothing separates the rows. Until the ascent takes over, no margin
        # above rounding need be given up
        if state.progress:
            problem = replace(problem, tol=min(problem.tol, ZERO_MARGIN))
        return super().margin_sizes(problem, state)

    def terms(self, problem: Problem, state: ActiveSetState) -> float:
        return state.small.combined


def _worst(heaps: Heaps, k: int) -> int:
    """The row with the smallest margin; -1 in the first pass."""
    found = [(heaps.keys[line, 0], heaps.ids[line, 0]) for line in (2 * k, 2 * k + 1) if heaps.filled[line]]
    return int(min(found)[1]) if found else -1


def _draws(problem: Problem, state: State) -> bool:
    """Whether the rows of this pass are drawn, as there are no weights yet."""
    return state.number == 1 and not problem.from_weights


def _draw(problem: Problem, state: State, k: int, positive: bool) -> np.ndarray:
    """At most SIDE random rows with this sign in problem k."""
    most = min(small_problem.SIDE, small_problem.limit(problem) // 2)
    random = np.random.default_rng((problem.seed, k, int(positive)))
    keys, ids = np.empty(0), np.empty(0, np.int64)
    labels = state.labels
    for first in range(0, problem.rows, VECTOR_CHUNK_ROWS):
        piece = slice(first, first + VECTOR_CHUNK_ROWS)
        own = labels_for(labels.of(piece), problem.outputs).own_of(k)
        here = np.flatnonzero(labels.present(piece) & (own == positive))
        keys, ids = np.concatenate([keys, random.random(here.size)]), np.concatenate([ids, first + here])
        if keys.size > most:
            chosen = np.argpartition(keys, most)[:most]
            keys, ids = keys[chosen], ids[chosen]
    return ids


EXACT_STAGE = Exact()


class ActiveSet(Exact):
    """Exact on the few rows that decide the margin, a read checks all; C = inf, l2; the first choice for it.

    Rows drawn at random are the first working set, or those nearest to the margin of given weights. Then, in turns:
        the maximum margin of the working set, found exactly: its value bounds that of all rows from above;
        a read of all rows at these weights: the smallest margin is a lower bound, and proves the weights;
        the rows with the smallest margins join the working set; the furthest of those without weight leave it.
    The bounds meet once no row outside is nearer than those inside.
    If these rows do not fit into memory, coordinate ascent with momentum continues from their duals.

    Source: non-negative least squares for the working set (Lawson and Hanson 1974); the rest is our own.
    """

    name = Exact.name

    def stages(self) -> dict[str, Stage]:
        return {"exact": Stage(EXACT_STAGE, leave=leave), "ascent": Stage(ASCENT, enter=ascend)}


def leave(problem: Problem, state: ActiveSetState, watch: None, report: PassReport, active: np.ndarray) -> str:
    """The next stage: the ascent, if a small problem could not hold its rows, or its solution was no progress."""
    return "" if state.progress else "ascent"


def ascend(problem: Problem, before: ActiveSetState, watch: None) -> MomentumAscent:
    """The state of the ascent from the duals of the small problems; bounds, best weights and norms stay."""
    small = before.small
    ids = [small_problem.ids(small, k) for k in range(problem.count)]
    small.rows, before.new = RowCache(), RowCache()  # free memory for the duals
    row_norms = before.row_norms
    known = Norms(
        measured=True, mean=EXACT_STAGE.mean_norm(before), largest=float(row_norms[norms.LARGEST_NORM]),
        empty=bool(row_norms[norms.EMPTY] > 0.0),
    )  # fmt: skip
    after = new(
        MomentumAscent, problem, ASCENT.dtype(problem), labels=before.labels, best=before.best, best_w=before.best_w,
        norms=known,
    )  # fmt: skip
    for k, u in enumerate(small.u):
        size, total = lp_norm(before.w[k], 2.0), float(u.sum())
        if size > 0.0 and total > 0.0:
            # w = sum alpha_i a_i has norm 1 / margin; u is for rows divided by the largest norm
            after.alpha[k, ids[k]] = u / total * size * size
            after.theta[k] = before.w[k]
    return ASCENT.prepare(problem, after)
