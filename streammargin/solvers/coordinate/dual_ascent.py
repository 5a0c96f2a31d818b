"""What the methods that step along one dual variable at a time have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import sdca as kernel
from streammargin.compiled.order import permutation
from streammargin.errors import DataError
from streammargin.kinds import YesNo
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import RowNumbers, numbered_from
from streammargin.rows.visits import PLACES, Turns, all_at_once, group_of, take_turns, visit
from streammargin.solvers.base import UNIT, Blocks, Share, multiplications
from streammargin.solvers.coordinate import active_rows, slow_constant
from streammargin.solvers.coordinate.active_rows import ActiveRows
from streammargin.solvers.coordinate.slow_constant import SlowConstant
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Running
from streammargin.solvers.proof.rounding import mean_rounding
from streammargin.solvers.proof.sweep import Certified, CertifiedBySweep
from streammargin.solvers.roles import Count, Float, K, N, Rows, Shared, Sum, f8, of, state, u1
from streammargin.words import entry

FLOAT32_TOL = 1e-5  # weights of float32 move half the bytes, and their rounding bounds the gap that they can reach
FLOAT32_CURVATURE = 1e34  # beyond it, or below its inverse, duals of the size 1 / L are no float32
TURNS = 64  # of several blocks at most, which take turns: one after the other they push the weights to and fro
TURN_ROWS = 512  # of a turn at least: a call of a kernel costs as much as some rows
VISITS = 2  # of each row while several blocks are there: a read costs more than a second visit
PIECE = 1 << 16  # rows of a vector of length n that are worked on at a time: no copy of length n
VISIT = 2  # multiplications of a value of a row that is visited


@state
class Norms:
    """The Euclidean norms of the rows, once all were visited. checked: none leaves the range of numbers."""

    checked: bool = False
    visited: Count = 0
    measured: bool = False
    mean: float = 0.0
    largest: float = 0.0
    empty: bool = False


@state
class Ascent(Certified):
    """alpha (K, n) and theta = A^T alpha (K, d+1); curvature (n,): L_i = (q-1) ||a_i||_q^2, 0 until first needed, inf
    where it overflowed; sleep (K, n) counters; figures: of a pass, the columns of compiled/sdca.py.

    part: of the visit of all rows in memory, the next one.
    """

    alpha: Rows[Float]
    sleep: Rows[u1]
    curvature: Rows[f8] = of(N)
    theta: Shared[Float]
    figures: Sum[f8] = of(K, kernel.FIGURES, smallest=(kernel.MIN_MARGIN,))
    constant: SlowConstant
    norms: Norms
    active: ActiveRows
    part: int = 0


A = TypeVar("A", bound=Ascent)


class DualAscent(CertifiedBySweep[A]):
    """A step for one row after the other, in random order."""

    precise: bool = entry(False, YesNo(), "whether all arithmetic is in float64, whatever the rows are")
    numeric = True
    blocks_per_step = PLACES
    vectors: ClassVar[int] = 1  # of length d + 1, that a row is multiplied with, and added to
    requires = ("step", "primal", "dual", "settled", "gap", "feasible", "slack", "missed")

    def dtype(self, problem: Problem) -> np.dtype:
        """float32 where the rows are and the tolerance allows it, now and before."""
        coarse = min(problem.tol, problem.least_tol) >= FLOAT32_TOL
        single = problem.dtype == np.float32 and not self.precise and coarse and problem.linear
        return np.dtype(np.float32 if single and not problem.objective.signed else np.float64)

    def estimate(self, problem: Problem, state: A, running: Running) -> float:
        """The relative gap that the sums of a pass speak for; 0 where they say that nothing separates the rows."""
        gap = problem.objective.estimate(running)
        if problem.objective.infeasible:
            crossed = running.slack <= 0.0 < running.alpha
            if crossed and running.size / running.alpha < self.smallest_margin(problem, state):
                return 0.0
            if self.has_empty_row(problem, state):
                return 0.0
        return gap

    def check_scale(self, problem: Problem, state: A) -> None:
        """DataError, after the first pass, for a row whose curvature leaves the range of numbers."""
        if state.norms.checked:
            return
        state.norms.checked = True
        for start in range(0, problem.rows, PIECE):
            L = state.curvature[start : start + PIECE]
            wrong = np.isinf(L)
            if state.alpha.dtype == np.float32:  # duals of the size 1/L are no float32 either
                wrong |= L > FLOAT32_CURVATURE
                if problem.objective.infeasible:
                    wrong |= (L > 0.0) & (L < 1.0 / FLOAT32_CURVATURE)
            if not wrong.any():
                continue
            row = start + int(np.argmax(wrong))
            raise DataError(
                f"the values of row {row} are too large or too small for the norm p = {problem.p!r}: the sum of "
                f"their powers {problem.q:.3g} leaves the range of numbers; "
                + ("divide the columns by their largest value (`scale=maxabs`) or " if problem.q < 100.0 else "")
                + "raise p, as in `penalty=lp:1.9`"
            )

    def begin_pass(self, problem: Problem, state: A, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.part = 0
        state.figures[:] = 0.0
        state.figures[:, kernel.MIN_MARGIN] = math.inf

    def order_of(self, problem: Problem, state: A, block: Block, *seeds: int) -> tuple[np.ndarray, int]:
        """A random order of the groups of rows of a block, and how many rows a group has."""
        group = group_of(block)
        return permutation(-(-block.rows() // group), problem.seed, state.number, *seeds), group

    def kept_bytes(self, problem: Problem) -> int:
        """Bytes for active rows; default: none are kept."""
        return 0

    @abstractmethod
    def visit_rows(self, problem: Problem, state: A, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        """One step for every row of these turns; figures (K, FIGURES) are added to."""

    def _visit(self, problem: Problem, state: A, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        """The same, counted: rows of the mean length, those visited and once more those that moved."""
        counts = figures[:, kernel.UPDATES :]  # and VISITS
        before = float(counts.sum())
        self.visit_rows(problem, state, active, turns, figures)
        state.multiplications += self.vectors * (float(counts.sum()) - before) * problem.values / problem.rows

    def run_block(self, problem: Problem, state: A, active: np.ndarray, block: Block, first: int) -> Share:
        return self.run_blocks(problem, state, active, [(first, block)])

    def run_blocks(self, problem: Problem, state: A, active: np.ndarray, blocks: Blocks) -> Share:
        slow_constant.damp(problem, state.labels, state.constant, blocks)
        if problem.resident and len(blocks) == 1:
            return self._visit_part(problem, state, active, *blocks[0])
        self._visited(state, active, blocks)
        room = self.kept_bytes(problem)
        kept = active_rows.due(state.active, blocks) if room else ()
        if room:
            active_rows.wake(state.sleep, blocks)
        for again in range(VISITS if room or len(blocks) > 1 else 1):
            moves = active_rows.Moves(state.alpha, state.active, blocks, kept) if room else None  # of the last visit
            seen = state.figures if again == 0 else np.zeros_like(state.figures)  # those of the first visit of a row
            self._take_turns(problem, state, active, blocks, kept, again, seen)
        if moves is not None:
            active_rows.keep_active(problem, state.active, blocks, kept, moves, room)
        return None

    @staticmethod
    def _visited(state: A, active: np.ndarray, blocks: Blocks) -> None:
        """Count these rows as visited: until all are, a curvature of 0 may be one not yet needed."""
        state.norms.visited += sum(block.rows() for _, block in blocks)
        state.multiplications -= multiplications(blocks, active.size)  # of rows that sleep: `_visit` counts the others

    def _visit_part(
        self, problem: Problem, state: A, active: np.ndarray, first: int, block: Block
    ) -> Share:  # fmt: skip
        """A unit of the visit of all rows in memory."""
        order = self.order_of(problem, state, block, first)
        parts = max(1, min(order[0].size, math.ceil(VISIT * active.size * values_of(block).size / UNIT)))
        now = visit(slow_constant.shortened(block, state.constant), numbered_from(first), *order)
        part = state.part
        self._visit(problem, state, active, take_turns([now], part, part + 1, parts), state.figures)
        state.part = (part + 1) % parts
        if state.part:
            return float(state.part / parts)
        self._visited(state, active, [(first, block)])
        return None

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
                self._visit(problem, state, active, take_turns(visits, start, turn + 1, turns), figures)
                start = turn + 1
            if names and mixed is not None:
                self._visit_kept(problem, state, active, names, *mixed)

    def _kept_order(
        self, problem: Problem, state: A, kept: active_rows.Parts, *seeds: int
    ) -> tuple[np.ndarray, int]:  # fmt: skip
        """One order for all pieces of the rows kept."""
        largest = max((state.active.rows.pieces[name].rows for name in kept), key=lambda piece: piece.rows())
        return self.order_of(problem, state, largest, *seeds)

    def _visit_kept(
        self, problem: Problem, state: A, active: np.ndarray, kept: active_rows.Parts, mixed: np.ndarray, group: int
    ) -> None:
        aside = np.zeros_like(state.figures)
        for name in kept:
            ids, block = state.active.rows.pieces[name]
            order = mixed[mixed < -(-block.rows() // group)]
            turns = all_at_once(slow_constant.shortened(block, state.constant), RowNumbers(0, ids), order, group)
            self._visit(problem, state, active, turns, aside)

    def _measure(self, problem: Problem, state: A) -> None:
        """The norms of the rows, once: when all were visited, the curvatures are known and stay."""
        norms = state.norms
        if norms.measured or norms.visited < problem.rows:
            return
        total, largest, empty = 0.0, 0.0, False
        for start in range(0, problem.rows, PIECE):
            piece = slice(start, start + PIECE)
            curvature = state.curvature[piece]
            sizes = np.sqrt(curvature) / math.sqrt(problem.q - 1.0)
            total, largest = total + float(sizes.sum()), max(largest, float(sizes.max()))
            empty = empty or bool(np.any((curvature == 0.0) & state.labels.present(piece)))
        norms.measured, norms.empty = True, empty
        norms.mean, norms.largest = total / max(1, problem.present), largest

    def mean_norm(self, problem: Problem, state: A) -> float:
        self._measure(problem, state)
        return state.norms.mean

    def rounding(self, problem: Problem, state: A) -> float:
        self._measure(problem, state)
        # of the length itself, and what was added to it
        return mean_rounding(problem.present, state.norms.largest) + state.sweep.largest_blur

    def has_empty_row(self, problem: Problem, state: A) -> bool:
        self._measure(problem, state)
        return state.norms.empty
