"""Adaptive sampling (dual acceleration paper, Algorithm 2, Theorem 4.1, section 5.2).

A pass makes steps in block after block. The scores A w and A g of a block are computed when it is loaded, and kept
exact by the Gram columns. Data in memory are one block, 64 steps a pass, and the method is then the paper's. From
several blocks a pass visits a quarter, drawn by their share of the mass of exp(-A w) when they were last seen; every
fourth visits all. The rows with the smallest margins stay in memory for the next block, and are drawn like its own. A
draw that falls on the mass outside ends the visit: without these rows, after a step or two. Sweeps, and w and g
themselves, give the bounds.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from streammargin.compiled import adaptive as kernel
from streammargin.compiled import row_norms as norms
from streammargin.compiled.order import permutation
from streammargin.compiled.predict import decide_block
from streammargin.kinds import Word
from streammargin.rows.blocks import Block, CSRBlock, stored
from streammargin.rows.labels import RowNumbers
from streammargin.solvers.base import JOINT, PassReport
from streammargin.solvers.cache import rows as store
from streammargin.solvers.cache.rows import Kept, RowCache
from streammargin.solvers.papers.drawn_of_kernel import VISIT_STEPS, DrawnOfKernel, begin_again, rate_of
from streammargin.solvers.papers.of_kernel import in_kernel
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.margins import pieces, sum_margins
from streammargin.solvers.proof.whole_pass import Whole, WholePass
from streammargin.solvers.roles import EVERY_COLUMN, GROUPS, K, Shared, Sum, W, clear, f8, i8, of, state
from streammargin.solvers.state import labels_for, labels_of
from streammargin.solvers.visits import Visit
from streammargin.words import entry

BLOCK_STEPS = 256  # steps per visit of one block of several
FULL_PASS_EVERY = 4  # every fourth pass visits all blocks, the others a quarter of them
STALE = 2.0  # log of the discount of rows outside a block, whose margins have grown since they were seen
NEXT_BLOCK_ROWS = 512  # rows that stay in memory for the next block
INDEX_BYTES = 64 << 20  # most bytes of the transpose of a sparse block, without which a step costs all of its entries


LINEAR = W.where(lambda problem: problem.kernel is None)


@state
class Margins:
    """The sums of a certificate, with frozen weights."""

    frozen: Shared[f8]
    smallest: Sum[f8] = of(K, smallest=EVERY_COLUMN)
    mistakes: Sum[i8] = of(K)
    wrong: Sum[i8] = of(1)


@state
class AdaptiveState(Whole):
    """g: the velocity. figures: of the steps (compiled/adaptive.py). length: of a run with the step `proven`.

    mass: the log of the mass of each block when it was last seen, without its rows in `kept`. order: the blocks of this
    pass; position: how many of them were visited. kept: the rows with the smallest margins.
    """

    workspace = of(2, LINEAR), of(K, LINEAR)  # a row, the starts of a block's columns; a copy of the weights
    margins: Margins
    kept: RowCache
    g: Shared[f8]
    figures: Shared[f8] = of(GROUPS, kernel.ADAPTIVE_FIGURES)
    length: Shared[f8] = of(GROUPS, fill=VISIT_STEPS)
    mass: Shared[f8] = of(GROUPS, 0, grows=True)
    order: Shared[i8] = of(0, grows=True)
    position: int = 0


class Adaptive(WholePass[AdaptiveState]):
    """Rows drawn by exp(-margin), a Gram column a step; C = inf, l2, also joint; stops by the margin gap.

    Rows are divided by the longest. A block has t steps with exact scores A w:
        draw a row i with a chance proportional to exp(-y_i x_i.w);
        g <- t/(t+1) (g + y_i x_i),   w <- w + g + y_i x_i                     (step=momentum);
        w <- w + sqrt(ln n / T) y_i x_i, starting again with 2 T steps after T   (step=proven).
    Both g and w are sums of rows with known weights: their lengths over these weights bound the margin from above.
    Out of core a pass reads the quarter of the blocks that weigh most; every fourth pass reads all.

    Source: dual acceleration paper, Algorithm 2, Theorem 4.1, section 5.2.
    """

    name = "adaptive"
    step: str = entry(
        "momentum", Word(("momentum", "proven")), "momentum: steps of 1 along a velocity; proven: steps of Theorem 4.1",
        kw_only=True,
    )  # fmt: skip
    takes: ClassVar[tuple[str, ...]] = (JOINT,)

    def of(self, problem: Problem) -> WholePass[Any]:
        return self if problem.kernel is None else in_kernel(self, DrawnOfKernel)

    def reserved_bytes(self, problem: Problem) -> int:
        return 2 * min(problem.rows, _most_kept(problem)) * _row_bytes(problem)  # the old ones and the new

    def fits(self, problem: Problem, state: AdaptiveState) -> bool:
        order, blocks = state.order, state.mass.shape[1]
        return state.position <= order.size and bool(np.all((order >= 0) & (order < blocks)))

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        copy = size if rows < problem.rows else 0  # the block joined with the cached rows
        kept = 5 * problem.count if rows < problem.rows else 0  # margins, to choose the rows to cache
        return 8 * rows * (3 * problem.lines + 4 + kept) + copy + (min(size, INDEX_BYTES) if sparse else 0)

    def visit(self, problem: Problem, state: AdaptiveState, active: np.ndarray) -> Visit:
        return super().visit(problem, state, active)._replace(order=self.order)

    def order(self, problem: Problem, state: AdaptiveState, blocks: int) -> np.ndarray:
        """The blocks of this pass: all of them, or those that weigh most."""
        number = state.number
        if number == 1:
            state.mass = np.zeros((problem.groups, blocks))
        order = permutation(blocks, problem.seed, number)
        if number % FULL_PASS_EVERY != 1 and blocks > 1:
            shares = np.zeros(blocks)
            for mass in state.mass:
                top = mass.max()
                shares += np.exp(mass - top) if math.isfinite(top) else 1.0  # -inf if all rows are cached
            # the largest of log share + Gumbel noise: a draw without replacement by the shares
            noise = np.random.default_rng((problem.seed, number, 1)).gumbel(size=blocks)
            with np.errstate(divide="ignore"):
                order = np.argsort(-(np.log(shares) + noise))[: -(-blocks // FULL_PASS_EVERY)]
        state.order = order
        return order

    def begin_pass(self, problem: Problem, state: AdaptiveState, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.position = 0
        state.figures[:, kernel.SMALLEST_SEEN_MARGIN] = math.inf

    def keep(self, problem: Problem, state: AdaptiveState, group: int) -> None:
        """Steps go on from the latest weights; certificates are of the best ones."""

    def run_block(self, problem: Problem, state: AdaptiveState, active: np.ndarray, block: Block, first: int) -> None:
        number = state.order[state.position]
        state.position += 1
        own_rows = block.rows()
        block, ids = self._with_kept(state, block, first)
        inverted = _columns(block)
        # cost of a Gram column, relative to all values: with the transpose, only the columns of one row
        share = stored(block) / (block.rows() * block.features()) if inverted.data.size else 1.0
        random = np.random.default_rng((problem.seed, state.number, first, 2))
        momentum = self.step == "momentum"
        R = self.largest_norm(state)
        steps_here = VISIT_STEPS if state.mass.shape[1] == 1 else BLOCK_STEPS
        for k in active.tolist():
            figures, w, g = state.figures[k], problem.view(state.w, k), problem.view(state.g, k)
            if not momentum:
                begin_again(problem, state, k)
            rate = rate_of(problem, state, k, self.step)
            rows = block, RowNumbers(0, ids), labels_of(problem, state), inverted
            before = float(figures[kernel.STEPS_DONE])
            steps = R, rate, momentum, random.random(steps_here), self._outside(state.mass[k], number)
            if problem.joint:
                kernel.adaptive_joint_block(*rows, *steps, w, g, figures)
            else:
                kernel.adaptive_block(*rows, k, *steps, w[0], g[0], figures)
            state.multiplications += (float(figures[kernel.STEPS_DONE]) - before) * stored(block) * share
        if state.mass.shape[1] > 1:
            self._keep(problem, state, active, block, ids, own_rows, number)

    def _with_kept(self, state: AdaptiveState, block: Block, first: int) -> tuple[Block, np.ndarray]:
        """The block and the rows kept of the others, and the numbers of all these rows."""
        ids = np.arange(first, first + block.rows())
        kept = state.kept.pieces.get("rows")
        if kept is None:
            return block, ids
        others = np.flatnonzero((kept.ids < first) | (kept.ids >= ids[-1] + 1))
        rows = store.gather([(block, np.arange(ids.size)), (kept.rows, others)])
        return rows, np.append(ids, kept.ids[others])

    def _keep(
        self, problem: Problem, state: AdaptiveState, active: np.ndarray, block: Block, ids: np.ndarray, own_rows: int,
        number: int,
    ) -> None:  # fmt: skip
        """Cache the rows with the smallest margins for the next visit, and store the mass of the block's other rows."""
        labels = state.labels
        scores = np.empty((ids.size, problem.count))
        decide_block(block, state.w, 0, scores)
        scores /= self.largest_norm(state)
        present = labels.present(ids)
        own = labels_for(labels.of(ids), problem.outputs).own_of_lines()
        margins = np.where(present, problem.margin.margins_of_rows(scores, own)[active], math.inf)
        heaviest = (margins - margins.min(axis=1, keepdims=True)).min(axis=0) if present.any() else np.zeros(ids.size)
        count = min(_most_kept(problem), ids.size)
        chosen = np.sort(np.argpartition(heaviest, count - 1)[:count])
        left = np.ones(ids.size, bool)
        left[chosen] = False
        left[own_rows:] = False
        for k, margin in zip(active.tolist(), margins, strict=True):
            state.mass[k, number] = np.logaddexp.reduce(-margin[left], initial=-math.inf)
        state.kept.pieces["rows"] = Kept(ids[chosen], store.take(block, chosen))

    def _outside(self, mass: np.ndarray, number: int) -> float:
        """The log of the discounted mass of all other blocks."""
        others = np.delete(mass, number)
        top = others.max(initial=-math.inf)
        return top + math.log(float(np.exp(others - top).sum())) - STALE if math.isfinite(top) else -math.inf

    def terms(self, problem: Problem, state: AdaptiveState) -> float:
        # a step adds a row to g and g to w
        return 4.0 * float(state.figures[:, kernel.STEPS_DONE].max())

    def _upper(self, problem: Problem, state: AdaptiveState) -> np.ndarray:
        """Lengths (groups,) of means of rows: w and g over the sums of their weights."""
        bounds = np.full(problem.groups, math.inf)
        for sum_of_rows, mass in ((state.w, kernel.MASS_W), (state.g, kernel.MASS_G)):
            total = state.figures[:, mass]
            known = total > 0.0
            bounds[known] = np.minimum(bounds[known], self.sizes(problem, sum_of_rows)[known] / total[known])
        return problem.margin.reported(bounds * self.largest_norm(state))

    def end_pass(self, problem: Problem, state: AdaptiveState, active: np.ndarray) -> PassReport:
        upper, best = self.rounded_up(problem, state, self._upper(problem, state)), state.best
        best.upper[active] = np.minimum(best.upper[active], upper[active])
        sizes = self.sizes(problem, state.w)
        estimate = np.zeros(problem.groups)
        hopeless = self.margin_sizes(problem, state).least
        # computed before the steps of the pass, so they lag behind
        smallest = problem.margin.reported(state.figures[:, kernel.SMALLEST_SEEN_MARGIN] * self.largest_norm(state))
        for k in active:
            if best.upper[k] < hopeless or state.row_norms[norms.EMPTY] > 0.0:
                continue  # certify: estimate 0
            lower = smallest[k] / sizes[k] if sizes[k] > 0.0 else -math.inf
            estimate[k] = max(0.0, 1.0 - lower / best.upper[k])
        return PassReport(estimate, 0)

    def begin_certificate(self, problem: Problem, state: AdaptiveState, active: np.ndarray) -> None:
        margins = state.margins
        margins.frozen[:] = state.best_w
        lines = problem.lines_of(active)
        margins.frozen[lines] = state.w[lines]
        clear(margins)

    def certify_block(self, problem: Problem, state: AdaptiveState, block: Block, first: int) -> None:
        margins = state.margins
        for seen in pieces(state.labels, problem.outputs, block, first):
            scores = seen.scores(margins.frozen)
            sum_margins(problem, seen.labels, scores, margins.smallest, margins.mistakes, margins.wrong)

    def end_certificate(self, problem: Problem, state: AdaptiveState) -> tuple[list[Figures], np.ndarray]:
        margins, wrong = state.margins, state.margins.wrong.copy()
        mistakes = problem.by_group(margins.mistakes).sum(axis=1)
        smallest = problem.by_group(margins.smallest).min(axis=1)
        report = self.report(problem, state, margins.frozen.copy(), smallest, state.best.upper, mistakes, wrong)
        assert report.certificate is not None and report.wrong is not None
        return report.certificate, report.wrong  # of a kernel they were counted anew


def _row_bytes(problem: Problem) -> int:
    return problem.features * (problem.dtype.itemsize + 4) + 24


def _most_kept(problem: Problem) -> int:
    """The number of rows cached between visits of several blocks."""
    return max(1, min(NEXT_BLOCK_ROWS, problem.budget // 8 // _row_bytes(problem)))


def _columns(block: Block) -> CSRBlock:
    """The transpose of a sparse block; without rows for a dense block, or one that is too large."""
    if isinstance(block, CSRBlock):
        data, indices, indptr = block.data, block.indices, block.indptr
        if data.size * (data.itemsize + 4) <= INDEX_BYTES:
            starts, rows, values = np.empty(block.width + 1, np.int64), np.empty_like(indices), np.empty_like(data)
            kernel.transpose(data, indices, indptr, block.width, starts, rows, values)
            return CSRBlock(values, rows, starts, block.rows(), 0.0)
        dtype = data.dtype
    else:
        dtype = block.X.dtype
    return CSRBlock(np.empty(0, dtype), np.empty(0, np.uint32), np.zeros(1, np.int64), block.rows(), 0.0)
