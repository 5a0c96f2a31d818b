"""Rows near the margin stay in memory between two reads, with a sample of the others, and are solved to the end.

The sample stands for the change of the other rows only, as in stochastic variance-reduced gradients (Johnson and Zhang
2013): at the weights and duals of the read the gradient is exact.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block, nbytes
from streammargin.rows.labels import Labels, RowNumbers, numbered_from
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.cache import rows as store
from streammargin.solvers.newton.subproblem import (
    UNDER_WAY,
    Proximal,
    leave,
    raise_bound,
    smooth,
    solve,
    under_way,
)
from streammargin.solvers.old_state import Array, Layout, Number, Room, State
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.old_best import best_figures, keep_bounds, keep_weights
from streammargin.solvers.proof.old_sweep import CertifiedBySweep
from streammargin.solvers.proof.rounding import EPS, TERM, blur, mean_rounding, norm_rounding

BUFFERS = 3 << 20  # bytes that buffers want at least
NEAR = 0.7  # of the bytes kept, for rows near the margin; the rest for the sample
LEAST_ROWS = 60  # rows kept, in multiples of the columns: with fewer the steps lead nowhere
STRETCHES = 16  # of the file at least, that the first sample comes from: a file may be sorted
A_ROW = 72  # bytes beside its values: number, class, weight, dual and its centre, margin, product, cap, slope
SOFTNESS = 0.25  # relative to the caps, at the first read with weights, which are near the optimum by then
FIRST_SOFTNESS = 2.0  # the same of the sample at w = 0: all rows have a slope
FIRST_GAP = 3e-3  # relative, of the sample that the weights start from: it is further from all rows than that
WITHIN = 1e-3  # of the tolerance, for the problem of the rows kept: the bound of all rows feels the rest
CHUNK_ROUNDING = kernel.CHUNK * EPS + TERM  # of sums over chunks, relative to the size of their terms


class NearMargin(CertifiedBySweep):
    """State: centres alpha (K, n), weights w and A^T a `image` (K, d+1), `key` (n,): how near to the margin a row is.

    Rows are kept by the block they come from; those that are not near are `sampled`.
    """

    name = "newton"
    summary = "rows near the margin, and a sample of the others"

    def layout(self, problem: Problem) -> Layout:
        K, n, width = problem.count, problem.rows, problem.features + 1
        return {
            "alpha": Array((K, n)),
            "key": Array((n,), np.float32),
            "w": Array((K, width)),
            "image": Array((K, width)),
            "bound": Array((K, width)),
            "gain": Array((K,)),
            "slip": Array((K,)),
            "softness": Array((K,), fill=SOFTNESS),
            "totals": Array((K, kernel.SUMS)),
            "marks": Array((K,), fill=math.inf),
            "limit": Number(2.0),
            "bytes": Number(0),
            "stuck": Number(0),
            "seen": Number(0),
            "drawn_from": Number(0.0),
            "due": Array((K,), bool),
            "offset": Array((width,)),
            **UNDER_WAY,
            "part": Number(0),
            "ended": Number(False),
            "leaving": Number(False),
            "phase": Number("near"),
            **self.certificates(problem, np.dtype(np.float64)),
            "the problem of the rows kept": Room(8 * width * (width + 6)),
            "rows kept": Room(room(problem)),
        }

    def order(self, problem: Problem, state: State, number: int, blocks: int) -> np.ndarray:
        """The first pass takes one block of every stretch of the file, for the sample that the weights start from."""
        if number > 1:
            return super().order(problem, state, number, blocks)
        stretches = min(blocks, max(STRETCHES, math.ceil(blocks * capacity(problem) / problem.rows)))
        state.numbers["drawn_from"] = stretches / blocks
        ends = np.arange(stretches + 1) * blocks // stretches
        return np.random.default_rng(problem.seed).integers(ends[:-1], ends[1:])

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        a = state.arrays
        for name in ("image", "totals", "wrong"):
            a[name][:] = 0
        state.kept.clear()
        state.numbers.update(seen=0, bytes=0, limit=2.0 if number > 1 else -1.0, part=0, ended=False)
        a["due"][:] = False

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        a, numbers = state.arrays, state.numbers
        if numbers["pass"] > 1:
            none = np.zeros((problem.count, 0))
            start, stop = store.next_rows(state, block, store.LOOK * problem.count, active.size)
            kernel.newton_sums(
                store.part(block, start, stop), numbered_from(first + start), problem.labels, problem.loss, active,
                problem.trials, a["softness"], a["w"], blur(a["w"]), none[0], a["alpha"], True, none, none[:0],
                a["key"], a["image"], np.zeros((0, 1, 1)), a["totals"], a["wrong"],
            )  # fmt: skip
            if stop < block.rows():
                return stop / block.rows()
        numbers["seen"] += block.rows()
        rows = np.arange(first, first + block.rows())
        wanted = self._wanted(problem, state, rows)
        if numbers["bytes"] + wanted.sum() * (nbytes(block) / rows.size + A_ROW) > room(problem):
            self._drop(problem, state)
            wanted = self._wanted(problem, state, rows)
        self._keep(problem, state, block, first, rows[wanted])
        if numbers["bytes"] > room(problem):
            self._drop(problem, state)
        return None

    def _wanted(self, problem: Problem, state: State, rows: np.ndarray) -> np.ndarray:
        near = state.arrays["key"][rows] <= state.numbers["limit"]
        return (near | self._sampled(problem, state, rows)) & problem.there(rows)

    def _sampled(self, problem: Problem, state: State, rows: np.ndarray) -> np.ndarray:
        """Which of these rows are drawn: the same ones whenever it is asked in a pass."""
        share = capacity(problem) / problem.rows
        share *= 1.0 / state.numbers["drawn_from"] if state.numbers["pass"] == 1 else 1.0 - NEAR
        return hashed(rows, problem.seed, state.numbers["pass"]) < 0.95 * share

    def _keep(self, problem: Problem, state: State, block: Block, first: int, ids: np.ndarray) -> None:
        if ids.size:
            kept = store.keep(block, first, ids)
            state.kept[f"rows {first}"] = kept
            state.numbers["bytes"] += nbytes(kept.rows) + A_ROW * ids.size

    def _drop(self, problem: Problem, state: State) -> None:
        """Lower the limit until the rows that are near take their share, with some room to go on."""
        a, numbers = state.arrays, state.numbers
        if not state.kept:
            return
        ids = np.concatenate([kept.ids for kept in state.kept.values()])
        each = np.concatenate([np.full(k.ids.size, nbytes(k.rows) / k.ids.size + A_ROW) for k in state.kept.values()])
        drawn = self._sampled(problem, state, ids)
        # less than all of the room early in a pass, as rows to come want the rest: every drop copies what stays
        free = 0.98 * room(problem) * max(0.75, numbers["seen"] / problem.rows) - float(each[drawn].sum())
        order = np.argsort(a["key"][ids[~drawn]], kind="stable")
        taken = np.cumsum(each[~drawn][order])
        last = int(np.searchsorted(taken, max(free, 0.0)))
        if last < order.size:
            numbers["limit"] = float(np.nextafter(a["key"][ids[~drawn]][order[last]], np.float32(-1.0)))
        numbers["bytes"] = 0
        for name in list(state.kept):
            kept = state.kept[name]  # the only copy: it goes as soon as the next one is there
            still = np.flatnonzero(self._wanted(problem, state, kept.ids))
            if not still.size:
                del state.kept[name]
                continue
            if still.size < kept.ids.size:
                kept = state.kept[name] = store.choose(kept, still)
            numbers["bytes"] += nbytes(kept.rows) + A_ROW * kept.ids.size

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport | float:
        a, numbers = state.arrays, state.numbers
        first = numbers["pass"] == 1
        if not numbers["ended"]:
            numbers["ended"] = True
            if first:
                a["due"][active] = True
            elif numbers["seen"] == problem.rows:
                keep_sums(problem, state, active)
                gaps = np.array([f.gap for f in best_figures(problem, state)])
                a["due"][active] = gaps[active] > problem.tol
        if a["due"].any():
            return self._solve(problem, state, int(np.argmax(a["due"])))
        if first:
            return PassReport(np.ones(problem.count), 0, kept_rows=self._kept_rows(state))
        figures = best_figures(problem, state)
        gaps = np.array([f.gap for f in figures])
        report = PassReport(gaps, int(a["totals"][:, kernel.MISTAKES].sum()), figures, a["wrong"].copy())
        report.kept_rows = self._kept_rows(state)
        return report

    def leave_out(self, problem: Problem, state: State) -> None:
        state.arrays["due"][:] = False
        state.numbers["ended"] = True

    def _kept_rows(self, state: State) -> int:
        return sum(kept.ids.size for kept in state.kept.values())

    def _solve(self, problem: Problem, state: State, k: int) -> float:
        """A unit on the weights and duals of problem k from the rows kept; returns which share of all is done."""
        a = state.arrays
        names = sorted(state.kept)
        ids = np.concatenate([state.kept[name].ids for name in names])
        starts = np.cumsum([0, *(state.kept[name].ids.size for name in names)])
        parts: list[tuple[RowNumbers, Block]] = [
            (numbered_from(int(start)), state.kept[name].rows) for start, name in zip(starts[:-1], names, strict=True)
        ]
        proximal = under_way(state, ids.size)
        near = a["key"][ids] <= state.numbers["limit"]
        others = problem.present - int(near.sum())
        weights = problem.weights[ids] if problem.weights.size else np.ones(ids.size)
        weights[~near] *= others / max(1, int((~near).sum()))
        labels = Labels(problem.codes[ids], problem.positive[k : k + 1], problem.caps[k : k + 1], weights, np.empty(0))
        w, first = a["w"][k], state.numbers["pass"] == 1
        if proximal is not None:
            alpha = a["centres"]
        else:
            alpha, a["offset"][:] = a["alpha"][k, ids], 0.0
            proximal = Proximal(0.0 if smooth(problem.loss) else FIRST_SOFTNESS)
        if proximal.made == 0 and not first:
            alpha[~near] *= others / max(1, int((~near).sum()))
            a["offset"][:] = a["image"][k]
            for numbers, block in parts:
                kernel.subtract_image(block, numbers, labels, 0, alpha, a["offset"])
            proximal = Proximal(float(a["softness"][k]))
            if 0.5 * float(np.square(w - a["image"][k]).sum()) < 0.5 * a["totals"][k, kernel.GAP]:
                a["softness"][k] /= 2.0  # of the next time
        enough = 0.0 if first else WITHIN * problem.tol * float(abs(a["best_primal"][k]))
        done = solve(
            parts, labels, problem.loss, proximal, alpha, w, a["offset"], enough, FIRST_GAP if first else 0.0
        )  # fmt: skip
        state.multiplications += proximal.multiplications
        if done:
            a["due"][k] = False
            if not first:
                a["alpha"][k, ids[near]] = alpha[near]
        leave(state, proximal, alpha, done)
        return 1.0 - float(a["due"].sum()) / problem.count

    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        return state.arrays["w"][k]  # of the sample: later passes certify themselves

    def bounds(self, problem: Problem, state: State, k: int, longest: float) -> tuple[float, float]:
        return 0.0, math.inf  # no loss is negative

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return state.arrays["w"].copy()


def keep_sums(problem: Problem, state: State, active: np.ndarray) -> None:
    """What the sums of all rows prove of the weights and the duals of the active problems."""
    a = state.arrays
    found: list[Candidate | None] = [None] * problem.count
    dual = np.full(problem.count, -math.inf)
    for k in active:
        total, w, bound = a["totals"][k], a["w"][k], a["bound"][k]
        losses = float(total[kernel.PRIMAL])
        rounding = float(total[kernel.ROUNDING]) + CHUNK_ROUNDING * losses
        found[k] = problem.objective.weighed(w, losses, rounding, total[kernel.MISTAKES])
        gain = float(total[kernel.DUAL] - CHUNK_ROUNDING * total[kernel.SUMMED])
        # two steps to a mean of images and of gains, each off by a few roundings of its larger end
        largest, size = max(abs(a["gain"][k]), abs(gain)), max(lp_norm(bound, 2.0), lp_norm(a["image"][k], 2.0))
        a["gain"][k] = raise_bound(bound, a["gain"][k], a["image"][k], gain)
        a["gain"][k] = raise_bound(bound, a["gain"][k], np.zeros_like(bound), 0.0)
        pulled = mean_rounding(problem.present, float(total[kernel.PULLED]))
        a["slip"][k] = max(a["slip"][k], pulled) + TERM * size
        length = lp_norm(bound, 2.0) + float(a["slip"][k])
        square = length * length * (1.0 + norm_rounding(bound.size))
        dual[k] = a["gain"][k] - TERM * largest - 0.5 * square
    keep_bounds(state, dual, np.full(problem.count, math.inf))
    keep_weights(problem, state, a["w"].copy(), found)


def row_bytes(problem: Problem) -> float:
    """Bytes of a row of the mean length, and of what is kept beside it."""
    return problem.size / problem.rows + A_ROW


def room(problem: Problem) -> int:
    """Bytes for rows kept: a share of what the vectors leave of the budget, and no more than all rows take."""
    K, width = problem.count, problem.features + 1
    left = problem.budget - problem.rows * (8 * K + 4) - 8 * width * (width + 6 + 8 * K)
    return store.room(left, BUFFERS, int(problem.rows * row_bytes(problem)))


def capacity(problem: Problem) -> float:
    """Rows of the mean length that there is room for."""
    return room(problem) / row_bytes(problem)


def enough_room(problem: Problem, least: float = LEAST_ROWS) -> bool:
    """Whether the rows that can be kept are enough for their problem to say something of all."""
    return capacity(problem) >= min(least * problem.features, 0.5 * problem.rows)


def hashed(rows: np.ndarray, seed: int, number: int) -> np.ndarray:
    """A number in [0, 1) for each row (splitmix64), another one in every pass."""
    x = rows.astype(np.uint64) + np.uint64((seed * 1_000_003 + number) * 0x9E3779B97F4A7C15 % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x ^ (x >> np.uint64(31))) / math.ldexp(1.0, 64)
