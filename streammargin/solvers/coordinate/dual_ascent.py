"""The common part of plain and accelerated dual coordinate ascent."""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import sdca as kernel
from streammargin.compiled.order import permutation
from streammargin.compiled.sleep import AWAKE, LONGEST_SLEEP
from streammargin.errors import DataError
from streammargin.kinds import YesNo
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowNumbers, numbered_from
from streammargin.rows.visits import Turns, all_at_once, group_of, take_turns, visit
from streammargin.solvers.base import Blocks, MarginSizes, Share, margin_sizes, multiplications
from streammargin.solvers.coordinate import active_rows, slow_constant
from streammargin.solvers.coordinate.active_rows import ActiveRows
from streammargin.solvers.coordinate.from_weights import BeginsAtWeights
from streammargin.solvers.coordinate.slow_constant import SlowConstant
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Running
from streammargin.solvers.proof.rounding import mean_rounding
from streammargin.solvers.proof.sweep import Certified, CertifiedBySweep
from streammargin.solvers.roles import Count, Float, K, N, Rows, Shared, Sum, f8, of, state, u1
from streammargin.solvers.state import VECTOR_CHUNK_ROWS, labels_of
from streammargin.words import entry

FLOAT32_CURVATURE = 1e34  # beyond it, or below its inverse, duals of the size 1 / L do not fit into float32
TURNS = 64  # most turns of several blocks: alternating between blocks keeps the weights from oscillating
TURN_ROWS = 512  # least rows per turn, as a kernel call costs as much as some rows
VISITS = 2  # visits of each row while several blocks are in memory: a second visit costs less than a read
SETTLED, SETTLING = 0.1, 200  # share of an earlier gap that settles rows; most visits of cached ones after a pass
Beside = tuple[np.ndarray, np.ndarray, kernel.Ahead | None]  # powers, their sums, and momentum, as in `sdca_turns`


@state
class Norms:
    """Figures of the row norms, once all rows were visited; checked: none over- or underflows."""

    checked: bool = False
    visited: Count = 0
    measured: bool = False
    mean: float = 0.0
    largest: float = 0.0
    empty: bool = False


@state
class Ascent(Certified):
    """alpha (K, n) and theta = A^T alpha (K, d+1); curvature (n,): L_i = (q-1) ||a_i||_q^2, 0 until first needed, inf
    if it overflows; sleep (K, n) counters; figures: of a pass, the columns of compiled/sdca.py;
    part: the next unit of a visit of all rows in memory.
    """

    alpha: Rows[Float]
    sleep: Rows[u1]
    curvature: Rows[f8] = of(N)
    theta: Shared[Float]
    figures: Sum[f8] = of(K, kernel.ASCENT_FIGURES, smallest=(kernel.MIN_MARGIN,))
    constant: SlowConstant
    norms: Norms
    active: ActiveRows
    part: int = 0


A = TypeVar("A", bound=Ascent)


class DualAscent(BeginsAtWeights[A], CertifiedBySweep[A]):
    """A step for one row after the other, in random order."""

    precise: bool = entry(False, YesNo(), "whether all arithmetic is in float64, whatever the rows are")
    vectors: ClassVar[int] = 1  # vectors of length d + 1 that each row is multiplied with
    behind_map: ClassVar[int] = 1  # times as many visits, of cached rows too, if each read maps the rows anew
    longest: ClassVar[int] = LONGEST_SLEEP  # passes that a row whose dual stays at a bound sleeps at most
    requires: ClassVar[tuple[str, ...]] = ("step", "primal", "dual", "settled", "gap", "feasible", "slack", "missed")

    def dtype(self, problem: Problem) -> np.dtype:
        return np.dtype(np.float64) if self.precise or not problem.linear else super().dtype(problem)

    def estimate(self, problem: Problem, state: A, running: Running) -> float:
        """The relative gap estimated from the sums of a pass; 0 if they indicate that the rows are not separable."""
        gap = problem.objective.estimate(running)
        if problem.objective.infeasible:
            crossed = running.slack <= 0.0 < running.alpha
            if crossed and running.size / running.alpha < self.margin_sizes(problem, state).least:
                return 0.0
            if self.has_empty_row(problem, state):
                return 0.0
        return gap

    def check_scale(self, problem: Problem, state: A) -> None:
        """DataError, after the first pass, for a row whose curvature over- or underflows."""
        if state.norms.checked:
            return
        state.norms.checked = True
        for start in range(0, problem.rows, VECTOR_CHUNK_ROWS):
            self.check_rows(problem, state.curvature[start : start + VECTOR_CHUNK_ROWS], start)

    def check_rows(self, problem: Problem, L: np.ndarray, first: int) -> None:
        """The same for the curvatures L (m,) of the rows from `first` on."""
        wrong = np.isinf(L)
        if self.dtype(problem) == np.float32:  # duals of the size 1/L must fit into float32
            wrong |= L > FLOAT32_CURVATURE
            if problem.objective.infeasible:
                wrong |= (L > 0.0) & (L < 1.0 / FLOAT32_CURVATURE)
        if wrong.any():
            row = first + int(np.argmax(wrong))
            raise DataError(
                f"row {row} has values too large or too small for the penalty lp with p = {problem.p!r}: "
                f"the sum of their powers {problem.q:.3g} over- or underflows; "
                + ("divide the columns by their largest value (`scale=maxabs`) or " if problem.q < 100.0 else "")
                + "raise p, as in `penalty=lp:1.9`"
            )

    def begin_pass(self, problem: Problem, state: A, active: np.ndarray) -> None:
        state.part = state.active.settling = 0
        state.figures[:] = 0.0
        state.figures[:, kernel.MIN_MARGIN] = math.inf

    def order_of(self, problem: Problem, state: A, block: Block, first: int, *seeds: int) -> tuple[np.ndarray, int]:
        """(random order of a block's groups of rows, rows per group); first: the number of its first row."""
        group = group_of(block)
        return permutation(-(-block.rows() // group), problem.seed, state.number, first, *seeds), group

    def beside(self, problem: Problem, state: A) -> Beside:
        """What the kernel takes beside theta; default: that of the penalty l2."""
        return state.theta, np.zeros(problem.count), None

    def _visit(self, problem: Problem, state: A, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        """Make a step for every row of these turns, and add to figures (K, ASCENT_FIGURES).

        Its multiplications are counted: rows visited plus rows updated, of mean length.
        """
        counts = figures[:, kernel.UPDATES :]  # and VISITS
        before = float(counts.sum())
        kernel.sdca_turns(
            turns, labels_of(problem, state), problem.loss, problem.norm, active, state.alpha, state.sleep,
            self.longest, state.curvature, state.theta, *self.beside(problem, state), state.constant.centre,
            state.constant.damping or 1.0, figures,
        )  # fmt: skip
        state.multiplications += self.vectors * (float(counts.sum()) - before) * problem.values / problem.rows

    @staticmethod
    def in_lines(problem: Problem, state: A) -> tuple[np.ndarray, np.ndarray]:
        return state.alpha, state.theta

    def set_out(self, problem: Problem, state: A, w: np.ndarray) -> None:
        super().set_out(problem, state, w)
        state.constant.centre[:] = w[:, -1]  # else a damped constant would begin near 0

    def run_blocks(self, problem: Problem, state: A, active: np.ndarray, blocks: Blocks) -> Share:
        slow_constant.damp(problem, state.labels, state.constant, blocks)
        if problem.resident and len(blocks) == 1:
            first, block = blocks[0]
            order = self.order_of(problem, state, block, first)
            now = visit(slow_constant.shortened(block, state.constant), numbered_from(first), *order)
            share = self.visit_part(problem, state, active, block, now)
            if share is None:
                self._visited(state, active, blocks)
            return share
        self._visited(state, active, blocks)
        budget = self.kept_bytes(problem)
        kept = active_rows.due(state.active, blocks) if budget else ()
        for first, block in blocks if budget else ():  # sleeping rows skip visits within a read, but not a whole read
            state.sleep[:, first : first + block.rows()] &= AWAKE
        for again in range(self.effort(problem) * VISITS if budget or len(blocks) > 1 else 1):
            moves = active_rows.Moves(state.alpha, state.active, blocks, kept) if budget else None  # of the last visit
            seen = state.figures if again == 0 else np.zeros_like(state.figures)  # of the first visit only
            self._take_turns(problem, state, active, blocks, kept, again, seen)
        if moves is not None:
            active_rows.keep_active(problem, state.active, blocks, kept, moves, budget)
        return None

    def effort(self, problem: Problem) -> int:
        """How many times as many visits a read is worth."""
        return self.behind_map if problem.mapped else 1

    @staticmethod
    def _visited(state: A, active: np.ndarray, blocks: Blocks) -> None:
        """Count these rows as visited: once all are, a curvature of 0 means a row of zeros."""
        state.norms.visited += sum(block.rows() for _, block in blocks)
        state.multiplications -= multiplications(blocks, active.size)  # `_visit` counts the rows that are awake

    def _take_turns(
        self, problem: Problem, state: A, active: np.ndarray, blocks: Blocks, kept: active_rows.Parts, again: int,
        figures: np.ndarray,
    ) -> None:  # fmt: skip
        visits = [
            visit(
                slow_constant.shortened(block, state.constant), numbered_from(first),
                *self.order_of(problem, state, block, first, *([again] if again else [])),
            )
            for first, block in blocks
        ]  # fmt: skip
        rows = sum(block.rows() for _, block in blocks)
        turns = min(TURNS, -(-rows // TURN_ROWS)) if len(blocks) > 1 or kept else 1
        mixed = self._kept_order(problem, state, kept, blocks[0][0], again, 1) if kept else None
        start = 0
        for turn in range(turns):
            names = kept[len(kept) * turn // turns : len(kept) * (turn + 1) // turns]
            if names or turn + 1 == turns:
                now = take_turns(visits, start, turn + 1, turns)
                for some in self.returning(problem, state, now) if again == 0 else [now]:
                    self._visit(problem, state, active, some, figures)
                start = turn + 1
            if names and mixed is not None:
                self._visit_kept(problem, state, active, names, *mixed, np.zeros_like(state.figures))

    def _kept_order(self, problem: Problem, state: A, kept: active_rows.Parts, *seeds: int) -> tuple[np.ndarray, int]:
        """One random order for all cached pieces."""
        largest = max((state.active.rows.pieces[name].rows for name in kept), key=lambda piece: piece.rows())
        return self.order_of(problem, state, largest, *seeds)

    def _visit_kept(
        self, problem: Problem, state: A, active: np.ndarray, kept: active_rows.Parts, mixed: np.ndarray, group: int,
        figures: np.ndarray,
    ) -> None:  # fmt: skip
        """One visit of these cached pieces, added to figures (K, ASCENT_FIGURES)."""
        for name in kept:
            ids, block = state.active.rows.pieces[name][:2]
            order = mixed[mixed < -(-block.rows() // group)]
            turns = all_at_once(slow_constant.shortened(block, state.constant), RowNumbers(0, ids), order, group)
            self._visit(problem, state, active, turns, figures)

    def settle(self, problem: Problem, state: A, active: np.ndarray) -> Share:
        """After the last block, visit the cached rows until their gap is a small share of that of all rows; in units.

        These rows matter most: while they still move, a read of all rows gains little.
        """
        cached, kept = state.active, list(state.active.rows.pieces)
        most = self.effort(problem) * SETTLING
        if not kept or cached.settling >= most:
            return None
        if cached.settling == 0:
            active_rows.wake_rows(state.sleep, cached)
        cached.settling += 1
        found = np.zeros_like(state.figures)
        order = self._kept_order(problem, state, kept, 0, cached.settling, 2)
        self._visit_kept(problem, state, active, kept, *order, found)
        if self.settled(problem, state, active, found[:, kernel.PASS_GAP]):
            self.skip_remaining(problem, state)
        return None if cached.settling >= most else cached.settling / most

    def settled(self, problem: Problem, state: A, active: np.ndarray, gaps: np.ndarray) -> bool:
        """Whether the gaps (K,) that a visit of the cached rows met are small enough."""
        return bool((gaps <= SETTLED * state.figures[:, kernel.PASS_GAP]).all())

    def skip_remaining(self, problem: Problem, state: A) -> None:
        state.active.settling = self.effort(problem) * SETTLING

    def duals(self, problem: Problem, state: A) -> tuple[np.ndarray, np.ndarray]:
        return state.alpha, state.sleep

    def measure_norms(self, problem: Problem, state: A) -> None:
        """Compute the row norms once, from the curvatures, when all rows were visited."""
        norms = state.norms
        if norms.measured or norms.visited < problem.rows:
            return
        total, largest, empty = 0.0, 0.0, False
        for start in range(0, problem.rows, VECTOR_CHUNK_ROWS):
            piece = slice(start, start + VECTOR_CHUNK_ROWS)
            curvature = state.curvature[piece]
            sizes = np.sqrt(curvature) / math.sqrt(problem.q - 1.0)
            total, largest = total + float(sizes.sum()), max(largest, float(sizes.max()))
            empty = empty or bool(np.any((curvature == 0.0) & state.labels.present(piece)))
        norms.measured, norms.empty = True, empty
        norms.mean, norms.largest = total / max(1, problem.present), largest

    def margin_sizes(self, problem: Problem, state: A) -> MarginSizes:
        self.measure_norms(problem, state)
        # of the norm, plus the bound that was added to it
        rounding = mean_rounding(problem.present, state.norms.largest) + state.sweep.largest_blur
        return margin_sizes(problem, state.norms.mean, rounding)

    def has_empty_row(self, problem: Problem, state: A) -> bool:
        self.measure_norms(problem, state)
        return state.norms.empty
