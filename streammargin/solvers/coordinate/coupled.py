"""Dual coordinate ascent for losses of all lines together: softmax, the hinge of Crammer and Singer, l2_error."""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

import numpy as np

from streammargin.compiled import coupled_ascent as kernel
from streammargin.compiled.order import permutation
from streammargin.compiled.sleep import AWAKE, LONGEST_SLEEP
from streammargin.errors import DataError
from streammargin.losses.crammer_singer import CrammerSingerTerms
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.rows.labels import RowNumbers, numbered_from
from streammargin.rows.products import AHEAD, add_pulls, ahead
from streammargin.rows.visits import Turns, all_at_once, group_of, in_turn, take_turns, visit
from streammargin.solvers.base import UNIT, Blocks, PassReport, Share, multiplications
from streammargin.solvers.coordinate.dual_ascent import SETTLED, TURN_ROWS, TURNS, VISITS
from streammargin.solvers.coordinate.from_weights import BeginsAtWeights
from streammargin.solvers.linear import keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, keep_bounds
from streammargin.solvers.proof.bounds import bounds_of_group
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Candidate, Running
from streammargin.solvers.proof.sweep import Certified, far, grown, missed_by_rounding
from streammargin.solvers.roles import GROUPS, Axis, Float, K, N, Rows, Shared, Sum, f8, of, state, u1
from streammargin.solvers.state import labels_of

# Rows of several blocks are visited until they have SETTLED of the gap that the first visit met, at most so many
# times. MNIST, softmax, C = 1, 6% of the rows at hand: 1e-3 in 28 reads and 21.7 CPU s; with 2 visits 1.7e-2 after 36
# reads and 8.4 s; with 20 visits, .03: 18 reads and 32.9 s
MOST_VISITS = 8
# Weights lie as rows read them: those of a line together, or for sparse rows those of a column
OUTER_AXIS = Axis(lambda problem: problem.features + 1 if problem.sparse else problem.count, name="d+1 or K")
INNER_AXIS = Axis(lambda problem: problem.count if problem.sparse else problem.features + 1, name="K or d+1")


@state
class CoupledAscent(Certified):
    """alpha (n, K) duals, and W, their A^T alpha; squares (n,): ||x_i||^2, 0 until first needed; sleep (n, groups)
    counters; figures: of a pass, the columns of compiled/coupled_ascent.py; part: the next unit of a visit of all rows
    in memory.
    """

    alpha: Rows[Float] = of(N, K)
    sleep: Rows[u1] = of(N, GROUPS)
    squares: Rows[f8] = of(N)
    W: Shared[Float] = of(OUTER_AXIS, INNER_AXIS)
    figures: Sum[f8] = of(GROUPS, kernel.COUPLED_FIGURES)
    part: int = 0


C = TypeVar("C", bound=CoupledAscent)


class Coupled(BeginsAtWeights[C]):
    """A step for all duals of one row after the other, in random order, under the ridge."""

    name = "coupled ascent"
    couples = ("coupled_step", "coupled_dual", "coupled_feasible")

    def reserved_bytes(self, problem: Problem) -> int:
        """A product changes all weights by a matrix of their size; each thread of a certificate has one, and a copy."""
        weights = 8 * problem.count * (problem.features + 1) * problem.by_products
        return super().reserved_bytes(problem) + weights * (1 + 2 * problem.workers.threads)

    def begin_pass(self, problem: Problem, state: C, active: np.ndarray) -> None:
        state.part = 0
        state.figures[:] = 0.0

    @staticmethod
    def in_lines(problem: Problem, state: C) -> tuple[np.ndarray, np.ndarray]:
        return state.alpha.T, state.W.T if problem.sparse else state.W

    def run_blocks(self, problem: Problem, state: C, active: np.ndarray, blocks: Blocks) -> Share:
        share = None
        if problem.resident and len(blocks) == 1:
            first, block = blocks[0]
            share = self.visit_part(problem, state, active, block, self._visit_of(problem, state, block, first, 0))
        else:
            self._visit_blocks(problem, state, active, blocks)
        if share is None:  # `_visit` has counted the rows that are awake
            state.multiplications -= multiplications(blocks, problem.lines * active.size)
        return share

    def _visit_blocks(self, problem: Problem, state: C, active: np.ndarray, blocks: Blocks) -> None:
        """Visit rows of several blocks in turns, while they are in memory: twice, and until they settle."""
        rows = sum(block.rows() for _, block in blocks)
        turns = min(TURNS, -(-rows // TURN_ROWS)) if len(blocks) > 1 else 1
        for first, block in blocks:  # a read wakes its rows: they skip visits, but no whole read
            state.sleep[first : first + block.rows()] &= AWAKE
        first_gap, before = 0.0, state.multiplications
        for again in range(MOST_VISITS if len(blocks) > 1 else 1):
            visits = [self._visit_of(problem, state, block, first, again) for first, block in blocks]
            seen = np.zeros_like(state.figures)
            now = take_turns(visits, 0, turns, turns)
            for some in self.returning(problem, state, now) if again == 0 else [now]:
                self._visit(problem, state, active, some, seen)
            gap = float(seen[:, kernel.PASS_GAP].sum())
            if again == 0:
                state.figures += seen
                first_gap = gap
            enough = gap <= SETTLED * first_gap or state.multiplications - before >= UNIT
            if again + 1 >= VISITS and enough:
                break

    @staticmethod
    def _visit_of(problem: Problem, state: C, block: Block, first: int, again: int) -> tuple:
        group = group_of(block)
        order = permutation(-(-block.rows() // group), problem.seed, state.number, first, again)
        return visit(block, numbered_from(first), order, group)

    def _visit(self, problem: Problem, state: C, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        """Make the steps of these turns, and count their multiplications."""
        counts = figures[:, kernel.UPDATES :]  # and VISITS
        before = float(counts.sum())
        given = (
            labels_of(problem, state), problem.loss, active, problem.lines, LONGEST_SLEEP, state.alpha, state.sleep,
            state.squares, state.W, figures,
        )  # fmt: skip
        if problem.by_products:
            _steps_by_products(turns, *given)
        else:
            kernel.row_steps(turns, *given)
        state.multiplications += problem.lines * (float(counts.sum()) - before) * problem.values / problem.rows

    def end_pass(self, problem: Problem, state: C, active: np.ndarray) -> PassReport | float:
        self.check_scale(problem, state)
        estimate, figures = np.zeros(problem.groups), state.figures
        for group in active:
            lines = self._lines(problem, state.W, group)
            size = math.sqrt(float(np.einsum("gj,gj->", lines, lines, dtype=np.float64)))
            gap, share = float(figures[group, kernel.PASS_GAP]), float(figures[group, kernel.PASS_DUAL_SHARE])
            running = Running(size, share - 0.5 * size * size, share, gap, math.inf)
            estimate[group] = problem.objective.estimate(running)
        return PassReport(estimate, int(figures[:, kernel.MISSED].sum()))

    @staticmethod
    def check_scale(problem: Problem, state: C) -> None:
        """DataError, after the first pass with steps, for a row whose squares overflow."""
        if state.number == 1 + problem.from_weights and not np.isfinite(state.squares.sum()):
            row = int(np.argmax(state.squares))
            raise DataError(
                f"the values of row {row} are too large: the sum of their squares overflows; divide the columns by "
                "their largest value (`scale=maxabs`)"
            )

    @staticmethod
    def _lines(problem: Problem, image: np.ndarray, group: int) -> np.ndarray:
        """The lines (lines, d+1) of a group, of an array that is laid out as the weights; a view."""
        return problem.view(image.T if problem.sparse else image, group)

    def weights(self, problem: Problem, state: C) -> np.ndarray:
        return np.ascontiguousarray(state.W.T if problem.sparse else state.W, dtype=np.float64)

    def begin_certificate(self, problem: Problem, state: C, active: np.ndarray) -> None:
        for group in problem.done(active):
            self._lines(problem, state.W, group)[:] = problem.view(state.best_w, group)
        state.sweep.frozen[:] = state.W.T if problem.sparse else state.W
        state.sweep.begin()

    def certify_block(self, problem: Problem, state: C, block: Block, first: int) -> None:
        rows = slice(first, first + block.rows())
        alpha, sleep = state.alpha[rows].T, state.sleep[rows].T
        labels, lines = labels_of(problem, state), np.arange(problem.count)
        sleep[state.sweep.certify(problem, labels, block, first, alpha, sleep, lines)] &= AWAKE

    def end_certificate(self, problem: Problem, state: C) -> tuple[list[Figures], np.ndarray]:
        sweep, found, dual = state.sweep, [], np.empty(problem.groups)
        w, sweep.frozen = sweep.frozen, np.zeros_like(sweep.frozen)  # best_w may now refer to it
        for group in range(problem.groups):
            weights, dual[group], *_ = bounds_of_group(problem, group, w, sweep)
            best = max(float(dual[group]), float(state.best.dual[group]))
            found.append(self._grown(problem, state, w, group, weights) if far(problem, weights, best) else weights)
        keep_bounds(state.best, dual, np.full(problem.groups, math.inf))
        keep_weights(problem, state, w, found)
        pull = sweep.pull[:, 0]
        state.W[:] = pull.T if problem.sparse else pull  # rounding does not accumulate over certificates
        return best_figures(problem, state.best), sweep.wrong.copy()

    @staticmethod
    def _grown(problem: Problem, state: C, w: np.ndarray, group: int, found: Candidate) -> Candidate:
        """The figures of a group's weights, which grow in w (K, d+1) if rounding alone keeps their margins below 1."""
        if not isinstance(problem.loss, CrammerSingerTerms) or found.mistakes or not state.squares.any():
            return found
        lines, labels = problem.of_group(w, group), state.labels
        caps = problem.view(problem.outputs.caps, group)
        weights = labels.weights[labels.weights > 0.0] if labels.weights.size else np.ones(1)
        smallest = float(caps[caps > 0.0].min(initial=math.inf)) * float(weights.min(initial=math.inf))
        size = problem.objective.size(lines)
        losses = found.primal + found.rounding - size.value * (1.0 - size.rounding)
        least = 1.0 - losses / smallest / problem.loss.ahead  # no row has more than all losses
        if not missed_by_rounding(1.0 - (1.0 - least) / problem.present, w.shape[1]) or least <= 0.0:
            return found
        longest = math.sqrt(float(state.squares.max(initial=0.0)) + problem.column**2)
        larger, now = grown(problem.objective, lines, least, longest / problem.loss.ahead)
        if now.primal < found.primal:
            lines[...] = larger
            return now
        return found


def _steps_by_products(turns: Turns, *given: Any) -> None:
    """`row_steps` on dense rows for many lines: products of matrices find scores, and change the weights W."""
    visits, start, stop, parts = turns
    W: np.ndarray = given[-2]
    for turn in range(start, stop):
        for block, lowest, listed, whole, group in visits:
            assert isinstance(block, DenseBlock)
            rows = (in_turn(whole, turn, parts)[:, None] * group + np.arange(group)).ravel()
            rows = rows[rows < block.rows()]
            for low in range(0, rows.size, AHEAD):
                some = rows[low : low + AHEAD]
                few = block._replace(X=block.X[some].astype(W.dtype, copy=False))
                steps, numbers = ahead(few, W), listed[some] if listed.size else lowest + some
                kernel.row_steps(
                    all_at_once(cast(Block, steps), RowNumbers(0, numbers), np.arange(some.size), 1), *given
                )
                add_pulls(few, steps.made.T, W)
