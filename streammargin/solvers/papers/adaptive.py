"""Adaptive sampling (dual acceleration paper, Algorithm 2, Theorem 4.1, section 5.2)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import adaptive as kernel
from streammargin.compiled import row_norms as norms
from streammargin.compiled.margins import margins_block
from streammargin.compiled.order import permutation
from streammargin.compiled.predict import decide_block
from streammargin.errors import UsageError
from streammargin.rows.blocks import Block, CSRBlock
from streammargin.rows.labels import RowNumbers, numbered_from
from streammargin.solvers.base import PassReport, State
from streammargin.solvers.cache import rows as store
from streammargin.solvers.old_state import Array, Kept, Layout, Number, Room
from streammargin.solvers.papers.whole_pass import WholePass
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures

STEPS = 64  # per visit of all rows; a step on dense rows costs as much as reading them once from memory
BLOCK_STEPS = 256  # per visit of one block of several
FULL = 4  # every so many passes all blocks are visited, in between the heaviest quarter
STALE = 2.0  # log of what rows outside a block count for less: their margins have grown since they were seen
KEPT = 512  # rows that stay in memory when the next block comes
INDEX_BYTES = 64 << 20  # of the columns of a sparse block; without them a step costs all of its entries


class Method(WholePass):
    """Rows drawn with a chance prop. to exp(-a_i.w), one Gram column a step, the rows divided by the longest.

    A pass visits blocks and makes steps in each: its scores A w and A g are computed when it is loaded, and kept exact
    by the Gram columns. Data in memory are one block, 64 steps a pass, and the method is then the paper's. From several
    blocks a pass visits a quarter, drawn by their share of the mass of exp(-A w) when they were last seen; every fourth
    pass visits all. The rows with the smallest margins stay in memory when the next block comes, and are drawn from as
    its own are: without them a visit ends after a step or two, for a draw that falls on the mass outside ends it. What
    is proven comes from sweeps and from w and g themselves: both are sums of rows with known non-negative weights, so
    their lengths over the sums of these bound the margin.

    schedule: "momentum" (beta = t / (t + 1), step 1) or "proven" (no momentum, step sqrt(ln n / T), Theorem 4.1;
    T doubles: at its end the method starts again with 2 T steps).

    State: w, g (K, d+1); figures (K, FIGURES) of compiled/adaptive.py, one line for a joint problem; mass (K, blocks),
    of rows that are not kept, and order of the blocks; the `rows` kept.
    """

    name = "adaptive"
    summary = "adaptive sampling"
    joint = True
    options = ("schedule",)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.options.get("schedule") not in (None, "momentum", "proven"):
            raise UsageError(f"`schedule` of adaptive is momentum or proven, not {problem.options['schedule']!r}")

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        groups = _groups(problem)
        return super().layout(problem) | {
            "g": Array((K, width)),
            "figures": Array((groups, kernel.FIGURES)),
            "length": Array((groups,), fill=STEPS),
            "mass": Array((groups, 0), grows=True),
            "order": Array((0,), np.int64, grows=True),
            "frozen": Array((K, width)),
            "smallest": Array((K,)),
            "mistakes": Array((K,), np.int64),
            "wrong": Array((1,), np.int64),
            "position": Number(0),
            "one row, and where the columns of a sparse block begin": Room(2 * 8 * width),
            "the weights as they are shown": Room(8 * K * width),
            "rows kept, the old ones and the new": Room(
                2 * min(problem.rows, _most_kept(problem)) * _row_bytes(problem)
            ),
        }

    def fits(self, problem: Problem, state: State) -> bool:
        order, blocks = state.arrays["order"], state.arrays["mass"].shape[1]
        visits = state.numbers["position"] <= order.size
        return visits and bool(np.all((order >= 0) & (order < blocks)))

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        width = problem.count // _groups(problem)
        copy = size if rows < problem.rows else 0  # the block and the rows kept, joined
        kept = 5 * problem.count if rows < problem.rows else 0  # margins, to choose the rows to keep
        return 8 * rows * (3 * width + 4 + kept) + copy + (min(size, INDEX_BYTES) if sparse else 0)

    def order(self, problem: Problem, state: State, number: int, blocks: int) -> np.ndarray:
        a = state.arrays
        if number == 1:
            a["mass"] = np.zeros((_groups(problem), blocks))
        order = permutation(blocks, problem.seed, number)
        if number % FULL != 1 and blocks > 1:
            shares = np.zeros(blocks)
            for mass in a["mass"]:
                top = mass.max()
                shares += np.exp(mass - top) if math.isfinite(top) else 1.0  # all rows may be kept ones
            # the largest of log share + Gumbel noise: a draw without replacement by the shares
            noise = np.random.default_rng((problem.seed, number, 1)).gumbel(size=blocks)
            with np.errstate(divide="ignore"):
                order = np.argsort(-(np.log(shares) + noise))[: -(-blocks // FULL)]
        a["order"] = order
        return order

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.numbers["position"] = 0
        state.arrays["figures"][:, kernel.SMALLEST] = math.inf

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> None:
        a = state.arrays
        number = a["order"][state.numbers["position"]]
        state.numbers["position"] += 1
        own_rows = block.rows()
        block, ids = self._with_kept(problem, state, block, first)
        inverted = _columns(block)
        # of a Gram column: all values, or those in the columns of one row
        share = store.entries(block) / (block.rows() * block.features()) if inverted.data.size else 1.0
        random = np.random.default_rng((problem.seed, state.numbers["pass"], first, 2))
        momentum = problem.options.get("schedule") != "proven"
        R = self.largest_norm(state)
        steps_here = STEPS if a["mass"].shape[1] == 1 else BLOCK_STEPS
        terms = problem.objective.terms(problem.present)
        for k, group in problem.objective.groups(active):
            figures, w, g = a["figures"][k], a["w"], a["g"]
            if not momentum and figures[kernel.STEPS] >= a["length"][k]:
                w[group], g[group] = 0.0, 0.0
                figures[[kernel.STEPS, kernel.MASS_G, kernel.MASS_W]] = 0.0
                a["length"][k] *= 2
            rate = 1.0 if momentum else math.sqrt(math.log(max(2, terms)) / a["length"][k])
            rows = block, RowNumbers(0, ids), problem.labels, inverted
            before = float(figures[kernel.STEPS])
            steps = R, rate, momentum, random.random(steps_here), self._outside(a["mass"][k], number)
            if problem.joint:
                kernel.adaptive_joint_block(*rows, *steps, w, g, figures)
            else:
                kernel.adaptive_block(*rows, k, *steps, w[k], g[k], figures)
            state.multiplications += (float(figures[kernel.STEPS]) - before) * store.entries(block) * share
        if a["mass"].shape[1] > 1:
            self._keep(problem, state, active, block, ids, own_rows, number)

    def _with_kept(self, problem: Problem, state: State, block: Block, first: int) -> tuple[Block, np.ndarray]:
        """The block and the rows kept of the others, and the numbers of all these rows."""
        ids = np.arange(first, first + block.rows())
        kept = state.kept.get("rows")
        if kept is None:
            return block, ids
        others = store.choose(kept, np.flatnonzero((kept.ids < first) | (kept.ids >= ids[-1] + 1)))
        return store.join(block, others.rows), np.append(ids, others.ids)

    def _keep(
        self, problem: Problem, state: State, active: np.ndarray, block: Block, ids: np.ndarray, own_rows: int,
        number: int,
    ) -> None:  # fmt: skip
        """Keep the rows with the smallest margins for the next visit, and note the mass of the block's others."""
        a = state.arrays
        scores = np.empty((ids.size, problem.count))
        decide_block(block, a["w"], 0, scores)
        scores /= self.largest_norm(state)
        there = problem.there(ids)
        own = problem.codes[ids][:, None] == problem.positive
        groups = [k for k, _ in problem.objective.groups(active)]
        margins = np.where(there, problem.objective.margins_of_rows(scores, own)[groups], math.inf)
        heaviest = (margins - margins.min(axis=1, keepdims=True)).min(axis=0) if there.any() else np.zeros(ids.size)
        room = min(_most_kept(problem), ids.size)
        chosen = np.sort(np.argpartition(heaviest, room - 1)[:room])
        left = np.ones(ids.size, bool)
        left[chosen] = False
        left[own_rows:] = False
        for k, margin in zip(groups, margins, strict=True):
            a["mass"][k, number] = np.logaddexp.reduce(-margin[left], initial=-math.inf)
        state.kept["rows"] = Kept(ids[chosen], store.take(block, chosen))

    def _outside(self, mass: np.ndarray, number: int) -> float:
        """The log of what the mass of all other blocks counts for."""
        others = np.delete(mass, number)
        top = others.max(initial=-math.inf)
        return top + math.log(float(np.exp(others - top).sum())) - STALE if math.isfinite(top) else -math.inf

    def terms(self, problem: Problem, state: State) -> float:
        # a step adds a row to g and g to w
        return 4.0 * float(state.arrays["figures"][:, kernel.STEPS].max())

    def _upper(self, problem: Problem, state: State) -> np.ndarray:
        """Lengths (K,) of means of rows: w and g over the sums of their weights."""
        a = state.arrays
        bounds = np.full(problem.count, math.inf)
        for name, mass in (("w", kernel.MASS_W), ("g", kernel.MASS_G)):
            total = np.broadcast_to(a["figures"][:, mass], (problem.count,))
            known = total > 0.0
            bounds[known] = np.minimum(bounds[known], self.sizes(problem, a[name])[known] / total[known])
        return bounds * self.largest_norm(state) * problem.objective.unit

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        a = state.arrays
        upper = self.rounded_up(problem, state, self._upper(problem, state))
        a["best_upper"][active] = np.minimum(a["best_upper"][active], upper[active])
        sizes = self.sizes(problem, a["w"])
        estimate = np.zeros(problem.count)
        hopeless = self.smallest_margin(problem, state)
        # seen before the steps of the pass, so they lag behind
        smallest = np.broadcast_to(a["figures"][:, kernel.SMALLEST], (problem.count,)) * self.largest_norm(state)
        for k in active:
            if a["best_upper"][k] < hopeless or a["row_norms"][norms.EMPTY] > 0.0:
                continue  # an exact figure will say so
            lower = smallest[k] * problem.objective.unit / sizes[k] if sizes[k] > 0.0 else -math.inf
            estimate[k] = max(0.0, 1.0 - lower / a["best_upper"][k])
        return PassReport(estimate, 0)

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        a = state.arrays
        a["frozen"][:] = a["best"]
        a["frozen"][active] = a["w"][active]
        a["smallest"][:], a["mistakes"][:], a["wrong"][:] = math.inf, 0, 0

    def certify_block(self, problem: Problem, state: State, block: Block, first: int) -> None:
        a, lines = state.arrays, 2 * problem.count
        none = np.zeros((lines, 0)), np.zeros((lines, 0), np.int64), np.zeros(lines, np.int64)
        margins_block(
            block, numbered_from(first), problem.labels, problem.joint, a["frozen"], a["smallest"], a["mistakes"],
            a["wrong"], *none,
        )  # fmt: skip

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        a = state.arrays
        objective, wrong = problem.objective, a["wrong"].copy()
        smallest, mistakes = objective.margins(a["smallest"]), objective.mistakes(a["mistakes"])
        report = self.report(problem, state, a["frozen"].copy(), smallest, a["best_upper"], mistakes, wrong)
        assert report.certificate is not None
        return report.certificate, wrong


def _groups(problem: Problem) -> int:
    """Vectors of weights that steps move: all classes of a joint margin are one."""
    return len(problem.objective.groups(np.arange(problem.count)))


def _row_bytes(problem: Problem) -> int:
    return problem.features * (problem.dtype.itemsize + 4) + 24


def _most_kept(problem: Problem) -> int:
    """Rows that are kept in memory between visits of several blocks."""
    return max(1, min(KEPT, problem.budget // 8 // _row_bytes(problem)))


def _columns(block: Block) -> CSRBlock:
    """The columns of a sparse block, as rows; no rows at all for a dense block, or one that is too large."""
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
