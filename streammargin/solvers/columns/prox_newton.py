"""Second-order steps under penalties with kinks: proximal Newton, semismooth on the proximal-point form of the dual.

Lee, Sun and Saunders 2014 (SIAM J. Optim. 24) for smooth losses; Li, Sun and Toh 2018 for the others.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import pdprox as dual_sums
from streammargin.compiled import prox_newton as kernel
from streammargin.compiled.quadratic import minimise_quadratic
from streammargin.errors import DataError, UsageError
from streammargin.losses.base import largest_bend
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import PassReport, Share, Solver, State
from streammargin.solvers.cache import rows as store
from streammargin.solvers.columns.constant import constant_alone
from streammargin.solvers.columns.pdprox import TOO_FAR
from streammargin.solvers.columns.screening import proven_zeros
from streammargin.solvers.newton.subproblem import matrix_work, smooth
from streammargin.solvers.old_state import Array, Layout, Number, Room
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Candidate, Sums
from streammargin.solvers.proof.old_best import best_figures, best_layout, keep_bounds, keep_weights
from streammargin.solvers.proof.rounding import blur

SOFTNESS = 0.5  # 1 / sigma at first, relative to the caps, as of `newton`
QUICK = 3  # steps that tell that the softness may fall faster
MOST = 40  # steps that tell that they lead nowhere
DAMPING = 1e-3  # added to the curvature of a column at first, relative to that of all its rows: the model is far off
LEAST_DAMPING = 1e-14  # the same at least: less is rounding
ENOUGH = 1e-4  # a step is shortened if the function falls by less than this part of what it would at first
ROUNDING = 1e-13  # of the function's value, relative
PART = 1e-3  # of the largest slope at first: how exactly the quadratic problem is solved, which is a model only
ROUNDS = 200  # in which it is, at most
WORK = 3e10  # multiplications of its equations, a second or two: of many columns a first step is far off anyway


class Method(Solver):
    """State: weights w (K, d+1), centres and duals (K, n), curvature H (K, d+1, d+1), damping and softness (K,).

    For centres c and duals a_i, the proximal steps of the losses from there (compiled/prox_newton.py), the function

        F(w) = R(w) + sum_i M_i(w),
        M_i(w) = max over feasible a of dual_i(a) - a u_i - softness (a - c_i)^2 / (2 cap_i)

    has A^T a as the slope of its smooth part, downwards, and A^T diag(slope_i) A as a matrix of its generalised
    Hessian. Each read yields both at w, and certifies w and a; between reads the quadratic model plus R is minimised.
    A step that made F larger is shortened at the next read. Once the certificate says that w is near the minimum of F,
    a becomes the centre, and the softness falls. Smooth losses have softness 0: F is the objective.

    The first read is at w = 0, with the constant that is best then where it is not penalised: its duals are those that
    are best there, and where they are optimal, so is w = 0. All rows count for its H, which is an upper bound.
    """

    name = "prox-newton"
    summary = "proximal Newton steps"
    numeric = True
    requires = ("step", "primal", "dual", "gap", "slope")
    options = ("C_path",)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.hard:
            raise UsageError("prox-newton needs a finite C; for the hard margin, C = inf, use `solver=auto`")
        if problem.p != 2.0:
            raise UsageError(f"prox-newton knows the norm p = 2 only, not {problem.p:.6g}; use `norm=2`")

    def serves(self, penalty: Penalty, free: bool) -> bool:
        return isinstance(penalty, LpSquare) or penalty.pieces(1) is not None  # of lp the norm is looked at by itself

    def layout(self, problem: Problem) -> Layout:
        K, n, width = problem.count, problem.rows, problem.features + 1
        sides = 2 if problem.objective.free else 1
        kinks = not smooth(problem.loss)
        return {
            **best_layout(problem),
            "w": Array((K, width)),
            "before": Array((K, width)),
            "way": Array((K, width)),
            "centres": Array((K, n if kinks else 0)),
            "alpha": Array((K, n)),
            "pull": Array((K, sides, width)),
            "H": Array((K, width, width)),
            "scale": Array((K, width)),
            "sums": Array((K, kernel.SUMS)),
            "duals": Array((K, sides, dual_sums.DUAL_SUMS)),
            "wrong": Array((problem.trials,), np.int64),
            "softness": Array((K,), fill=SOFTNESS if kinks else 0.0),
            "damping": Array((K,), fill=DAMPING),
            "height": Array((K,)),
            "fall": Array((K,)),
            "steps": Array((K,), np.int64),
            "zeros": Array((K, width), bool),
            "due": Array((K,), bool),
            "theta": Array((K, width)),
            "ended": Number(False),
            "part": Number(0),
            "seen": Number(0),
            "chunks": Number(0),
            "the matrix of a step, and another of the columns that are not 0": Room(8 * width * (2 * width + 16)),
        }

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.options.get("C_path") else 0

    def prologue_block(self, problem: Problem, state: State, index: int, block: Block, first: int) -> Share:
        return self.run_block(problem, state, np.arange(problem.count), block, first)

    def wakes(self, problem: Problem, state: State) -> float:
        found = [self._feasible(problem, state, k)[0] for k in range(problem.count)]
        return min(problem.objective.penalty.wakes(problem.objective.penalised(theta)) for theta in found)

    def dearer(self, problem: Problem, state: State, factor: float) -> None:
        a = state.arrays
        for name in ("centres", "scale"):
            a[name] *= factor
        a["steps"][:] = 0
        a["zeros"][:] = False
        a["softness"][:] = 0.0 if smooth(problem.loss) else SOFTNESS
        a["best_primal"][:], a["best_dual"][:] = math.inf, -math.inf

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.numbers.update(seen=0, chunks=0, part=0, ended=False)
        for name in ("pull", "H", "sums", "duals", "wrong"):
            state.arrays[name][:] = 0

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        a, steepest = state.arrays, 0.0
        softness = a["softness"]
        if state.numbers["pass"] <= 1:
            if state.numbers["seen"] == 0 and problem.objective.free and not problem.targets.size and block.bias:
                for k in range(problem.count):
                    a["w"][k, -1] = constant_alone(problem, k) / block.bias
            steepest = 1.0 / (float(softness.max()) + 1.0 / largest_bend(problem.loss))
            softness = np.zeros(problem.count)
        for k in np.setdiff1d(np.arange(problem.count), active):  # they show the weights that were certified
            a["w"][k] = a["best"][k]
        work = problem.count * (store.LOOK + (problem.features + 1) / 2)
        start, stop = store.next_rows(state, block, work, active.size)
        state.numbers["seen"] += stop - start
        state.numbers["chunks"] += math.ceil((stop - start) / kernel.CHUNK)
        # rows that bend are not counted apart
        state.multiplications += active.size * matrix_work(0, stop - start, problem.values / problem.rows)
        kernel.prox_newton_sums(
            store.part(block, start, stop), numbered_from(first + start), problem.labels, problem.loss, problem.trials,
            active, a["w"], blur(a["w"]), softness, steepest, a["centres"], a["alpha"], a["pull"], a["H"], a["sums"],
            a["duals"], a["wrong"],
        )  # fmt: skip
        return stop / block.rows() if stop < block.rows() else None

    def leave_out(self, problem: Problem, state: State) -> None:
        state.arrays["due"][:] = False

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport | float:
        a, K = state.arrays, problem.count
        mistakes = int(a["sums"][:, kernel.MISTAKES].sum())
        if state.numbers["seen"] < problem.rows:  # broken off: it proves nothing
            return PassReport(np.full(K, math.inf), mistakes, best_figures(problem, state))
        if not state.numbers["ended"]:
            state.numbers["ended"] = True
            self._judge(problem, state, active)
        if a["due"].any():
            k = int(np.argmax(a["due"]))
            self._step(problem, state, k, a["theta"][k] if state.numbers["pass"] == 1 else a["pull"][k].sum(axis=0))
            if state.numbers["pass"] == 1:  # of another function: whether it was too long cannot be told
                a["steps"][k] = 0
            a["due"][k] = False
            return 1.0 - float(a["due"].sum()) / K
        figures = best_figures(problem, state)
        estimate = np.array([math.inf if f.gap is None else f.gap for f in figures])
        return PassReport(estimate, mistakes, figures, a["wrong"].copy() if problem.per_trial > 1 else None)

    def _judge(self, problem: Problem, state: State, active: np.ndarray) -> None:
        """What the pass proves, and which problems make a step."""
        a, K = state.arrays, problem.count
        found: list[Candidate | None] = [None] * K
        dual, total = np.full(K, -math.inf), dict[int, Sums]()
        for k in active:
            losses, missed, rounding = a["sums"][k, : kernel.GAP].tolist()
            found[k] = problem.objective.weighed(a["w"][k], losses, rounding, missed)
            a["theta"][k], total[k] = self._feasible(problem, state, k)
            dual[k] = problem.objective.bounds(a["theta"][k], total[k])[0]
        keep_bounds(state, dual, np.full(K, math.inf))
        keep_weights(problem, state, a["w"].copy(), found)
        for k in active:
            a["due"][k] = self._go_on(problem, state, k, found[k].primal - dual[k], a["theta"][k])
            self._find_zeros(problem, state, k, a["theta"][k], total[k], float(dual[k]))

    @staticmethod
    def _feasible(problem: Problem, state: State, k: int) -> tuple[np.ndarray, Sums]:
        """A^T alpha (d+1,) of the part of the duals that fits the constant, and its sums."""
        names = (dual_sums.DUAL, dual_sums.ALPHA, dual_sums.SUMMED, dual_sums.PULLED)
        added = kernel.CHUNK + state.numbers["chunks"]  # to an entry of A^T alpha, one after the other
        sides = []
        for side in state.arrays["duals"][k]:
            dual, alpha, summed, pulled = (float(side[name]) for name in names)
            sides.append(Sums(0.0, dual, alpha, 0.0, 0.0, summed=summed, pulled=pulled, rows=added))
        return problem.objective.balanced(state.arrays["pull"][k], sides)

    def _go_on(self, problem: Problem, state: State, k: int, apart: float, theta: np.ndarray) -> bool:
        """A shorter step of problem k, or its next centres; apart: of its objective and the bound of its duals.

        Returns whether a new step is due instead.
        """
        a = state.arrays
        gap = float(a["sums"][k, kernel.GAP])
        if state.numbers["pass"] == 1:
            a["scale"][k] = np.diagonal(a["H"][k])
            if not (
                np.isfinite(theta).all() and np.isfinite(a["H"][k]).all() and (a["scale"][k] > 0.0)[theta != 0.0].all()
            ):
                raise DataError(TOO_FAR)
            return True
        moved = float(a["duals"][k, :, dual_sums.MOVED].sum())
        height = problem.objective.regulariser(a["w"][k]) + float(a["sums"][k, kernel.LOSSES]) - gap - 0.5 * moved
        blurred = ROUNDING * abs(height)
        if a["steps"][k] > 0:
            above = height - a["height"][k]
            if above > ENOUGH * a["fall"][k] + blurred:
                part = min(max(-0.5 * a["fall"][k] / (above - a["fall"][k]), 0.1), 0.5)
                a["way"][k] *= part
                a["fall"][k] *= part
                a["w"][k] = a["before"][k] + a["way"][k]
                a["damping"][k] *= 4.0
                return False
            a["damping"][k] = max(0.25 * a["damping"][k], LEAST_DAMPING)
        a["height"][k] = height
        near = apart - gap < 0.5 * gap or a["steps"][k] >= MOST
        if a["softness"][k] > 0.0 and near:
            self._move_centres(state, k)
            return False
        return True

    def _find_zeros(self, problem: Problem, state: State, k: int, theta: np.ndarray, sums: Sums, dual: float) -> None:
        """Of a loss that bends everywhere; `scale` is what its rows bend by at most, less what the softness takes."""
        a, most = state.arrays, largest_bend(problem.loss)
        if most < math.inf:
            gap = float(a["best_primal"][k] + a["best_rounding"][k]) - dual
            bend = a["scale"][k] * (1.0 if smooth(problem.loss) else 1.0 + SOFTNESS * most)
            a["zeros"][k] |= proven_zeros(problem, theta, sums, gap, bend)

    def zeros(self, problem: Problem, state: State) -> np.ndarray:
        return state.arrays["zeros"][:, :-1]

    def _move_centres(self, state: State, k: int) -> None:
        a = state.arrays
        a["centres"][k] = a["alpha"][k]
        a["softness"][k] /= 4.0 if a["steps"][k] <= QUICK else 2.0
        a["steps"][k] = 0

    def _step(self, problem: Problem, state: State, k: int, down: np.ndarray) -> None:
        """To the minimum of R and the quadratic model at w, where the smooth part falls along `down` (d+1,)."""
        a = state.arrays
        ordered = problem.objective.pieces(down.size)
        assert ordered is not None
        order, pieces = ordered
        H = a["H"][k]
        diagonal = np.diagonal(H) + a["damping"][k] * a["scale"][k].max()
        H += np.triu(H, 1).T
        np.fill_diagonal(H, diagonal)
        v = a["w"][k, order]
        if (np.diff(order) < 0).any():
            H = H[np.ix_(order, order)]
        resting = a["zeros"][k, order] & (v == 0.0)
        rounds = minimise_quadratic(H, -down[order], pieces, resting, v, PART, ROUNDS, WORK)
        # each round sweeps over the matrix, and factors that of the columns that move
        state.multiplications += rounds * matrix_work(int(np.count_nonzero(v)), 1, v.size)
        a["before"][k] = a["w"][k]
        a["w"][k, order] = v
        a["way"][k] = a["w"][k] - a["before"][k]
        grown = problem.objective.regulariser(a["w"][k]) - problem.objective.regulariser(a["before"][k])
        a["fall"][k] = grown - float(down @ a["way"][k])
        a["steps"][k] += 1

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return state.arrays["w"].copy()
