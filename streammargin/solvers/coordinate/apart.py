"""Coordinate ascent on rows in several places: at home by each holder, and in one place for the rows that matter.

A read is a round. From the weights of all, each holder makes two passes over its rows at home. Their changes are added
up. The rows whose duals are between their bounds, or have just moved, go to one place, as far as memory allows. There
they are visited until their own gap is small: the few rows that matter are worked on together, whoever has the others.
The read is the certificate of the weights that it began with, too.

The sum of all moves may overshoot, as no holder knows of the others. So a share of it is taken: the dual objective is
concave, and is raised most, at least, by gamma = clip((gained - v.moved) / ||moved||^2, 0, 1), for v = A^T alpha.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from streammargin.compiled import sdca as kernel
from streammargin.compiled.duals import dual_sums
from streammargin.rows.blocks import Block, CSRBlock, nbytes
from streammargin.rows.labels import numbered_from
from streammargin.rows.visits import Turns, all_at_once
from streammargin.solvers.base import PassReport
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Coming, RowCache
from streammargin.solvers.coordinate import active_rows, slow_constant
from streammargin.solvers.coordinate.dual_ascent import VISITS, Ascent, DualAscent
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures
from streammargin.solvers.roles import K, Kept, N, Role, Rows, Sum, Total, f8, of, state, state_bytes, u1
from streammargin.solvers.state import labels_for, labels_of
from streammargin.solvers.visits import Visit

ASLEEP = 255  # a counter that no visit of a read wakes
COPIES = 3  # of rows in one place: those that come, and all of them anew, lie beside them for a while
LEAST_ROOM = 4 << 20  # bytes of rows in one place; with less, rounds do little
BUFFERS = 32 << 20  # bytes of the buffers of blocks, which have a fixed size
COARSE, ENOUGH, LEAST = 0.3, 0.1, 0.3  # own gap: this share of the gap of all, at most COARSE; at least LEAST of tol


@state
class ApartAscent(Ascent):
    """away (n,): rows that are in one place, `active.rows`. began (K, n): the duals at the start of the round.

    moved (K, d+1), gained (K,): what the rows at home add to A^T alpha, and to the rows' shares of the dual. coming:
    rows on their way to the one place. squares: of the norms of all rows. merged: the round's sums were used.
    """

    sleep: Annotated[NDArray[u1], Role.KEPT] = of(K, N)
    curvature: Annotated[NDArray[f8], Role.KEPT] = of(N)
    began: Kept[f8] = of(K, N)
    away: Rows[u1] = of(N)
    moved: Sum[f8]
    gained: Sum[f8] = of(K)
    coming: Annotated[RowCache, Role.SUM]
    squares: Total = 0.0
    merged: bool = False


class Apart(DualAscent[ApartAscent]):
    """Ascent at home, and together in one place."""

    name = "ascent in several places"
    state_class: ClassVar[type[ApartAscent]] = ApartAscent
    blocks_per_step = 1
    mapped = True

    def dtype(self, problem: Problem) -> np.dtype:
        return np.dtype(np.float64)

    def kept_bytes(self, problem: Problem) -> int:
        left = problem.budget - state_bytes(ApartAscent, problem)
        everything = problem.size + active_rows.A_ROW * problem.rows
        return min(max(LEAST_ROOM, (left - BUFFERS) // COPIES), everything)

    def reserved_bytes(self, problem: Problem) -> int:
        return COPIES * self.kept_bytes(problem)

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        # weights; duals before and after, caps and moves of a block, sleep and curvatures of its shard; sizes and order
        return problem.count * (8 * (problem.features + 1) + 60 * rows) + 80 * rows

    def visit(self, problem: Problem, state: ApartAscent, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(each=self.run_block, together=False, leaves=False)

    def begin_pass(self, problem: Problem, state: ApartAscent, active: np.ndarray) -> None:
        state.moved[:], state.gained[:], state.squares = 0.0, 0.0, 0.0
        super().begin_pass(problem, state, active)
        self.begin_certificate(problem, state, active)
        state.began[:] = state.alpha
        state.merged = False

    # at home

    def run_block(self, problem: Problem, state: ApartAscent, active: np.ndarray, block: Block, first: int) -> None:
        """Certify, make the passes over these rows, and choose those that go to the one place, or stay there."""
        self.certify_block(problem, state, block, first)
        rows = slice(first, first + block.rows())
        before, away = state.alpha[:, rows].copy(), state.away[rows] > 0
        self._pass(problem, state, active, block, first)
        own = labels_for(state.labels.cut(first, first + block.rows()), problem.outputs)
        for k in active:
            now, then = state.alpha[k, rows], before[k]
            state.gained[k] += dual_sums(own, problem.loss, k, now, now, 0.0)[0]
            state.gained[k] -= dual_sums(own, problem.loss, k, then, then, 0.0)[0]
        if state.number > 1:
            wanted = self._wanted(problem, state, block, first, before)
            new = np.flatnonzero(wanted & ~away)
            if new.size:
                number = state.origin + first
                state.coming.change(str(number), None, [Coming(number, block, new)])
            state.away[rows] = wanted

    def _pass(self, problem: Problem, state: ApartAscent, active: np.ndarray, block: Block, first: int) -> None:
        sleep, curvature = np.zeros(state.alpha.shape, np.uint8), np.zeros(state.alpha.shape[1])
        sleep[:, state.away > 0] = ASLEEP
        constant = slow_constant.SlowConstant(centre=state.constant.centre.copy(), damping=state.constant.damping)
        slow_constant.damp(problem, state.labels, constant, [(first, block)])  # in the first round each for itself
        theta = state.theta + state.moved
        for again in range(VISITS):
            order = self.order_of(problem, state, block, first, again)
            turns = all_at_once(slow_constant.shortened(block, constant), numbered_from(first), *order)
            kernel.sdca_turns(
                turns, labels_of(problem, state), problem.loss, problem.norm, active, state.alpha, sleep, 0, curvature,
                theta, theta, np.zeros(problem.count), constant.centre, constant.damping, state.figures,
            )  # fmt: skip
        state.moved[active] = (theta - state.theta)[active]
        state.squares += float(curvature.sum())

    def _wanted(
        self, problem: Problem, state: ApartAscent, block: Block, first: int, before: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """Which of these rows should be in the one place, (m,) bool; as many as their share of its memory has room for.

        Rows with a dual between its bounds come first, then those that moved most, then those that are there.
        """
        rows = slice(first, first + block.rows())
        alpha, away, caps = state.alpha[:, rows], state.away[rows] > 0, self._caps(problem, state, rows)
        moved = np.abs(alpha - before).sum(axis=0)
        free = ((alpha != 0.0) & (np.abs(alpha) != caps)).any(axis=0)
        matters = np.flatnonzero(free | away | (moved > 0.0))
        order = matters[np.lexsort((-moved[matters], ~free[matters]))]
        taken = np.cumsum(_sizes(block)[order] + active_rows.A_ROW)
        wanted = np.zeros(block.rows(), bool)
        wanted[order[taken <= self.kept_bytes(problem) * nbytes(block) / problem.size]] = True
        return wanted

    @staticmethod
    def _caps(problem: Problem, state: ApartAscent, rows: slice) -> np.ndarray:
        """The largest duals (K, m) of these rows."""
        known = state.labels.of(rows)
        caps = np.stack([problem.outputs.caps[k][known.codes_of(k)] for k in range(problem.count)])
        return caps * known.weights if known.weights.size else caps

    # in one place

    def end_pass(self, problem: Problem, state: ApartAscent, active: np.ndarray) -> PassReport | float:
        if not state.merged:
            self._merge(problem, state, active)
        if (share := self.settle(problem, state, active)) is not None:
            return share
        figures = best_figures(problem, state.best)
        gaps = np.array([each.gap for each in figures])
        mistakes = int(sum(each.mistakes for each in figures))
        return PassReport(gaps, mistakes, figures, state.sweep.wrong.copy(), kept_rows=state.active.rows.count)

    def _merge(self, problem: Problem, state: ApartAscent, active: np.ndarray) -> None:
        """Prove what the read found, take a share of the moves at home, and the rows that came."""
        state.merged = True
        self.end_certificate(problem, state)
        if state.number == 1:
            slow_constant.damp_by(problem, state.constant, state.squares / problem.present, problem.column**2)
        rho = state.constant.damping or 1.0
        for k in active:
            moved, v = state.moved[k], slow_constant.seen(state.constant, k, state.theta[k].copy())
            square = float(moved @ moved) - (1.0 - rho) * float(moved[-1]) ** 2
            gamma = min(max((state.gained[k] - float(v @ moved)) / square, 0.0), 1.0) if square > 0.0 else 0.0
            state.alpha[k] = state.began[k] + gamma * (state.alpha[k] - state.began[k])
            state.theta[k] += gamma * moved
        self._take(state)

    @staticmethod
    def _take(state: ApartAscent) -> None:
        """Drop the rows that went home, and add those that came; all are one piece, for one random order."""
        pieces = [*state.active.rows.pieces.values(), *state.coming.pieces.values()]
        staying = [np.flatnonzero(state.away[kept.ids]) for kept in pieces]
        state.active.rows.pieces, state.coming = {}, RowCache()
        if sum(map(len, staying)):
            ids = np.concatenate([kept.ids[here] for kept, here in zip(pieces, staying, strict=True)])
            rows = store.gather([(kept.rows, here) for kept, here in zip(pieces, staying, strict=True)])
            state.active.rows.pieces["rows"] = store.Kept(ids, rows)

    def settled(self, problem: Problem, state: ApartAscent, active: np.ndarray, gaps: np.ndarray) -> bool:
        """Whether the own gaps of the rows in one place are small: beside those of all rows, and the tolerance."""
        known = np.minimum(np.array([each.gap for each in best_figures(problem, state.best)], np.float64), COARSE)
        goal = np.maximum(LEAST * problem.tol, ENOUGH * known) * np.abs(state.best.primal)
        behind = [slow_constant.behind(state.constant, k, theta) for k, theta in enumerate(state.theta)]
        return bool((gaps + behind <= goal)[active].all())

    def visit_rows(
        self, problem: Problem, state: ApartAscent, active: np.ndarray, turns: Turns, figures: np.ndarray
    ) -> None:
        kernel.sdca_turns(
            turns, labels_of(problem, state), problem.loss, problem.norm, active, state.alpha, state.sleep,
            self.longest, state.curvature, state.theta, state.theta, np.zeros(problem.count), state.constant.centre,
            state.constant.damping or 1.0, figures,
        )  # fmt: skip

    def weights(self, problem: Problem, state: ApartAscent) -> np.ndarray:
        return np.stack([self.frozen(problem, state, k) for k in range(problem.count)])

    def frozen(self, problem: Problem, state: ApartAscent, k: int) -> np.ndarray:
        return slow_constant.seen(state.constant, k, state.theta[k].copy())

    def duals(self, problem: Problem, state: ApartAscent) -> tuple[np.ndarray, np.ndarray]:
        return state.alpha, np.zeros((problem.count, 0), np.uint8)

    def rebuilt(self, problem: Problem, state: ApartAscent, k: int, theta: np.ndarray) -> None:
        state.theta[k] = theta


def _sizes(block: Block) -> np.ndarray:
    """Bytes (m,) of each row."""
    if isinstance(block, CSRBlock):
        return np.diff(block.indptr) * (block.data.itemsize + block.indices.itemsize) + block.indptr.itemsize
    return np.full(block.rows(), nbytes(block) / block.rows())
