"""Primal-dual proximal steps (Pdprox paper, Algorithms 1 and 2), restarted (Applegate et al. 2021, PDLP)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import pdprox as kernel
from streammargin.compiled import row_norms as norms
from streammargin.compiled.columns import add_squares
from streammargin.errors import DataError, UsageError
from streammargin.losses.base import largest_bend
from streammargin.penalties.base import Penalty
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import PassReport, Share, Solver, State, multiplications
from streammargin.solvers.cache import rows as store
from streammargin.solvers.columns import kept_columns
from streammargin.solvers.columns import working_set as column_steps
from streammargin.solvers.columns.constant import constant_alone
from streammargin.solvers.columns.screening import proven_zeros
from streammargin.solvers.old_state import Array, Layout, Number, Room
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Candidate, Sums
from streammargin.solvers.proof.old_best import best_figures, best_layout, keep_bounds, keep_weights
from streammargin.solvers.proof.rounding import blur

LAST, MEAN = 0, 1  # the two weights that a pass certifies
PAPER = ("primal", "dual")
TOO_FAR = (
    "a row or column has a norm too far from 1 to compute with; multiply the data by a constant, or use `scale=maxabs`"
)
LARGEST, SMALLEST = 1e140, 1e-140  # norms of rows and columns; their squares must be numbers
SUFFICIENT = 0.2  # a restart: the gap is this part of what it was at the last one (Applegate et al. 2021, section 3.2)
NECESSARY = 0.8  # or this part and no longer falling: without it l2norm takes a tenth more passes
LONG = 0.36  # or so many of all passes so far were made since: without it the penalty l2norm takes twice the passes
PATIENCE = 20  # passes before a restart for that reason: a path over C of three classes took half as many again without
SHRINK, GROW = -0.3, -0.6  # exponents of what the next step may lose and gain (section 3.1 there)
PIECE = 1 << 16  # rows of a vector of length n that are worked on at a time


def _dot(x: np.ndarray, y: np.ndarray) -> float:
    """x.y of long vectors: BLAS would give them to several threads, which wait for the processors that others use."""
    return float(np.einsum("i,i", x, y))


class Method(Solver):
    """alpha <- prox of the losses at alpha - sigma A w, w <- prox of R at w + tau A^T (2 alpha - alpha_before).

    One read an iteration: a pass sees w, steps the duals by the margins that it meets and sums up A^T alpha, which is
    all that the next w needs; its sums certify w and alpha, and the mean of the w since the last restart with the mean
    of the alpha. This is Algorithm 2 of the paper. tau is one number over the Euclidean norms of the columns; tau sigma
    follows from how far the last step went, and their ratio from how far both sides went between two restarts.

    schedule = primal or dual: Algorithms 2 and 1 with the paper's own steps, one for all columns, and without restarts.

    A first pass at w = 0, with the constant that is best then where it is not penalised, takes the duals that are best
    there: where they are optimal, so is w = 0.

    In memory, and where the penalty is a sum over columns or groups of them, w is first moved by many steps on the few
    columns that matter (column_steps.py), and a pass of the same kind moves the duals and certifies both. Where these
    steps become hard, interior points take their place once (interior.py). Out of core such a pass gathers, of sparse
    rows, the columns that move at its end (kept_columns.py).

    dual_budget = M: sum_i alpha_i <= C M (the paper's eq. (19)). Its multiplier eta >= 0 costs C M eta, and lifts every
    margin: it is the weight of one more column, so that no duals are projected and one read an iteration stays enough.
    """

    name = "pdprox"
    summary = "primal-dual proximal steps"
    prologue = 1
    numeric = True
    requires = ("step", "primal", "dual")
    options = ("schedule", "dual_budget", "C_path")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if not problem.objective.penalty.proximal:
            raise UsageError(f"pdprox knows the norm p = 2 only, not {problem.p:.6g}; use `norm=2`")
        if problem.hard:
            raise UsageError("pdprox needs a finite C; for the hard margin, C = inf, use `solver=auto`")
        schedule = self._schedule(problem)
        if schedule is not None and schedule not in PAPER:
            raise UsageError(
                f"the schedule of pdprox is primal or dual, the algorithms of the paper, not {schedule!r}; leave "
                "`schedule` out for steps and restarts that the run finds"
            )

    def serves(self, penalty: Penalty, free: bool) -> bool:
        return True

    @staticmethod
    def _budgets(problem: Problem) -> np.ndarray:
        """What the duals of each problem may sum up to (K,)."""
        return np.full(problem.count, problem.options.get("dual_budget", math.inf)) * problem.costs

    @staticmethod
    def _schedule(problem: Problem) -> str | None:
        return problem.options.get("schedule")

    def _split(self, problem: Problem) -> column_steps.Split | None:
        """The penalty as steps on columns take it; None where they are not taken."""
        if problem.options or not (column_steps.all_fit(problem) or self._stored(problem)):
            return None
        return column_steps.split(problem)

    def _steps(self, problem: Problem, state: State) -> column_steps.Split | None:
        """`_split`, made once: of many columns it takes as long as a few sweeps."""
        if "split" not in state.scratch:
            state.scratch["split"] = self._split(problem)
        return state.scratch["split"]

    def _stored(self, problem: Problem) -> int:
        """How many values of columns are kept between two reads, of each problem; 0: all columns fit, or too few do.

        So it is of dense rows: their columns are all as long as the rows are many.
        """
        if (
            problem.options
            or not problem.sparse
            or column_steps.all_fit(problem)
            or column_steps.split(problem) is None
        ):
            return 0
        return kept_columns.capacity(problem, self._vectors(problem))

    def layout(self, problem: Problem) -> Layout:
        return self._vectors(problem) | kept_columns.layout(problem, self._stored(problem))

    def fits(self, problem: Problem, state: State) -> bool:
        penalty = column_steps.split(problem)
        # those that have made their steps have chosen other columns since
        left = np.flatnonzero(state.arrays["due"]) if state.numbers["ended"] else range(problem.count)
        return penalty is None or kept_columns.fits(problem, penalty, state, left)

    def _vectors(self, problem: Problem) -> Layout:
        K, n, width = problem.count, problem.rows, problem.features + 1
        sides = 2 if problem.objective.free else 1
        restarts = self._schedule(problem) is None
        steps = not problem.options and column_steps.all_fit(problem) and column_steps.split(problem) is not None
        return {
            **best_layout(problem),
            "row_norms": Array((norms.ROW_FIGURES,)),
            "squares": Array((problem.features,)),
            "tempo": Array((width,)),
            "w": Array((2, K, width)),
            "blur": Array((2, K)),
            "alpha": Array((K, n)),
            "pull": Array((K, sides, width)),
            "duals": Array((K, sides, kernel.DUAL_SUMS)),
            "losses": Array((2, K, kernel.LOSS_SUMS)),
            "wrong": Array((2, problem.trials), np.int64),
            "lift": Array((2, K)),
            "lift_before": Array((K,)),
            "lift_total": Array((K,)),
            "mass": Array((K,)),
            # sums since the last restart, of as many passes
            "passes": Array((K,), np.int64),
            "w_total": Array((K, width)),
            "total": Array((K, n if restarts else 0)),
            "pull_total": Array((K, sides, width)),
            "duals_total": Array((K, sides, kernel.DUAL_SUMS)),
            # A^T alpha and w of the pass before, as `mass` (sum alpha) and `lift_before`; where the last restart was
            "image": Array((K, width)),
            "w_before": Array((K, width)),
            "w_anchor": Array((K, width if restarts else 0)),
            "alpha_anchor": Array((K, n if restarts else 0), np.float32),
            "gap_anchor": Array((K,), fill=math.inf),
            "gap": Array((K,), fill=math.inf),
            "step": Array((K,)),
            "ratio": Array((K,)),
            "reach": Array((K,)),  # of the duals, where w moves by steps on columns; 0: it does not
            "next_reach": Array((K,)),
            "interior tried": Array((K,), bool),  # as steps on columns had become hard
            "zeros": Array((K, width), bool),
            "due": Array((K,), bool),  # steps on columns, before the rows see w or after the pass
            "stay": Array((K,), bool),
            "gaps": Array((K, 2)),
            "shown mistakes": Number(0),
            "shown wrong": Array((problem.trials,), np.int64),
            "begun": Number(False),
            "ended": Number(False),
            "part": Number(0),
            "seen": Number(0),
            "constant": Number(0.0),
            "lift tempo": Number(1.0),
            "the weights as they are shown, and vectors of a step": Room(8 * width * (K + 6)),
            "columns looked at, and what rows answer": Room(column_steps.room(problem) if steps else 0),
        }

    # prologue: the norms of rows and columns

    def prologue_block(self, problem: Problem, state: State, index: int, block: Block, first: int) -> Share:
        a = state.arrays
        norms.row_norms(block, numbered_from(first), problem.labels, 2.0, a["row_norms"])
        rows = slice(first, first + block.rows())
        weights = problem.weights[rows] if problem.weights.size else problem.weights
        add_squares(block, problem.codes[rows], weights, a["squares"])
        state.numbers["constant"] = float(block.bias)
        if self._stored(problem):
            kept_columns.count(problem, state, block, first)
        if problem.options.get("C_path"):
            if first == 0:
                for k in range(problem.count):
                    self._set_constant(problem, state, k)
            self._meet(
                problem, state, np.arange(problem.count), block, first, a["total"][:, :0], np.zeros(problem.count, bool)
            )
        return None

    def _set_constant(self, problem: Problem, state: State, k: int) -> None:
        """The weights that all begins with: 0, but for a constant that is not penalised."""
        a = state.arrays
        if problem.objective.free and not problem.targets.size and self._schedule(problem) is None:
            a["w"][:, k, -1] = a["w_anchor"][k, -1] = constant_alone(problem, k) / state.numbers["constant"]

    def wakes(self, problem: Problem, state: State) -> float:
        a = state.arrays
        found = [self._feasible(problem, k, a["pull"][k], a["duals"][k], 1)[0] for k in range(problem.count)]
        a["alpha"][:] = 0.0
        return min(problem.objective.penalty.wakes(problem.objective.penalised(theta)) for theta in found)

    def dearer(self, problem: Problem, state: State, factor: float) -> None:
        a = state.arrays
        for name in ("alpha", "image", "mass"):
            a[name] *= factor
        a["alpha_anchor"][:] = a["alpha"]
        a["w_anchor"][:] = a["w"][LAST]
        a["gap_anchor"][:] = a["gap"][:] = a["best_primal"][:] = math.inf
        a["best_dual"][:] = -math.inf
        a["zeros"][:] = False
        for name in ("w_total", "lift_total", "total", "pull_total", "duals_total", "passes"):
            a[name][:] = 0

    def _begin(self, problem: Problem, state: State) -> None:
        """After the prologue: what tau is for each column, up to a factor, and the steps of the paper."""
        a = state.arrays
        mass, squares = self._squares(problem, state)
        largest = float(a["row_norms"][norms.LARGEST])
        sizes = np.sqrt(squares)
        there = sizes > 0.0
        least = float(sizes.min(initial=math.inf, where=there))
        if not (max(largest, sizes.max()) <= LARGEST and least >= SMALLEST):
            raise DataError(TOO_FAR)
        if self._schedule(problem) is None:
            a["tempo"][:] = problem.objective.even(
                np.divide(1.0, sizes, out=np.full(sizes.size, 1.0 / least), where=there)
            )
            state.numbers["lift tempo"] = 1.0 / math.sqrt(mass)  # the tempo of a column of 1
            a["ratio"][:] = math.sqrt(_dot(a["tempo"], squares) / mass)  # times ||alpha||, once it is known
            for k in range(problem.count):
                self._set_constant(problem, state, k)
        else:  # Theorem 6, with the mean loss in place of the sum
            a["tempo"][:] = state.numbers["lift tempo"] = 1.0
            a["step"][:] = 1.0 / (math.sqrt(2.0 * problem.present) * (largest or 1.0))
            a["ratio"][:] = problem.caps.max(axis=1)

    @staticmethod
    def _squares(problem: Problem, state: State) -> tuple[float, np.ndarray]:
        """Sum of the weights of the rows, and of that times the squares of each column (d+1,)."""
        mass = float(problem.weights[problem.there(slice(None))].sum()) if problem.weights.size else problem.present
        return mass, np.append(state.arrays["squares"], mass * state.numbers["constant"] ** 2)

    # passes

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        if number == 1:
            self._begin(problem, state)
        a = state.arrays
        state.numbers.update(seen=0, part=0, begun=False, ended=False)
        a["due"][:] = a["stay"][:] = False
        a["blur"][:] = np.stack([blur(w) for w in a["w"]])
        for name in ("pull", "duals", "losses", "wrong"):
            a[name][:] = 0
        penalty = self._steps(problem, state)
        if penalty is not None and a["reach"].any():
            kept_columns.begin(problem, penalty, state)

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        a = state.arrays
        for k in np.setdiff1d(np.arange(problem.count), active):  # they show the weights that were certified
            a["w"][:, k], a["lift"][:, k] = a["best"][k], 0.0
            a["blur"][:, k] = blur(a["best"][k : k + 1])
        moving = active[a["reach"][active] > 0.0]
        penalty = self._steps(problem, state) if moving.size else None
        if not state.numbers["begun"]:
            state.numbers["begun"] = True
            a["due"][moving] = penalty is not None and column_steps.all_fit(problem)
        if a["due"].any() and penalty is not None:
            k = int(np.argmax(a["due"]))
            a["stay"][k], a["due"][k] = self._improve(problem, penalty, state, k, block), False
            return 1.0 - float(a["due"].sum() + 1) / (problem.count + 1)
        start, stop = store.next_rows(state, block, 2 * store.LOOK * problem.count, active.size)
        state.numbers["seen"] += stop - start
        self._meet(problem, state, active, store.part(block, start, stop), first + start, a["total"], a["stay"])
        if stop < block.rows():
            return stop / block.rows()
        if penalty is not None:
            for k in moving:
                kept_columns.gather(problem, penalty, state, k, block, first)
        return None

    @staticmethod
    def _improve(problem: Problem, penalty: column_steps.Split, state: State, k: int, block: Block) -> bool:
        """Steps on the columns that matter, before the rows see w; returns whether they found the duals as well."""
        a = state.arrays
        reach = float(a["reach"][k])
        w, a["next_reach"][k], proof = column_steps.improve(
            problem, penalty, state, block, k, a["w"][LAST, k], a["alpha"][k], a["image"][k], reach,
            a["zeros"][k], state.numbers["pass"],
        )  # fmt: skip
        if a["next_reach"][k] <= reach < math.inf and not a["interior tried"][k]:
            a["interior tried"][k] = True
            found = column_steps.approach(problem, penalty, state, block, k, w, a["alpha"][k], a["image"][k], reach)
            w, proof = found or (w, proof)
        a["w"][:, k] = w
        a["blur"][:, k] = blur(w[None])
        if proof is not None:
            a["alpha"][k] = proof
        return proof is not None

    def _meet(
        self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int, total: np.ndarray,
        stay: np.ndarray,
    ) -> None:  # fmt: skip
        """Step the duals of the rows by the margins that they have, where they do not stay (K,), and add up what
        certifies both.
        """
        a = state.arrays
        lengths = np.where(a["reach"] > 0.0, a["reach"], a["step"] * a["ratio"])
        curvature = np.divide(1.0, lengths, out=np.zeros(problem.count), where=lengths > 0.0)  # 0 before the first step
        curvature[stay] = math.inf
        twice = self._schedule(problem) == "dual" and state.numbers["pass"] > 1
        same = np.array_equal(a["w"][LAST], a["w"][MEAN]) and np.array_equal(a["lift"][LAST], a["lift"][MEAN])
        seen = slice(1 if same else 2)
        if not same:
            state.multiplications += multiplications([(first, block)], active.size) / 2
        kernel.pdprox_block(
            block, numbered_from(first), problem.labels, problem.loss, problem.trials, active, a["w"][seen],
            a["lift"][seen], a["blur"][seen], curvature, twice, a["alpha"], total, a["pull"], a["losses"][seen],
            a["duals"], a["wrong"][seen],
        )  # fmt: skip
        if same:
            a["losses"][MEAN], a["wrong"][MEAN] = a["losses"][LAST], a["wrong"][LAST]

    def leave_out(self, problem: Problem, state: State) -> None:
        state.arrays["due"][:] = False

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport | float:
        a, K = state.arrays, problem.count
        if state.numbers["seen"] < problem.rows:  # broken off: it proves nothing
            mistakes = int(a["losses"][LAST, :, kernel.MISTAKES].sum())
            return PassReport(np.full(K, math.inf), mistakes, best_figures(problem, state))
        if not state.numbers["ended"]:
            state.numbers["ended"] = True
            self._judge(problem, state, active)
        if a["due"].any():
            k = int(np.argmax(a["due"]))
            self._advance(problem, state, k, a["gaps"][k].tolist())
            a["due"][k] = False
            return 1.0 - float(a["due"].sum()) / K
        kept_columns.release(state)
        figures = best_figures(problem, state)
        estimate = np.array([math.inf if f.gap is None else f.gap for f in figures])
        wrong = a["shown wrong"].copy() if problem.per_trial > 1 else None
        return PassReport(estimate, state.numbers["shown mistakes"], figures, wrong)

    def _judge(self, problem: Problem, state: State, active: np.ndarray) -> None:
        """What the pass proves; all problems are to advance then."""
        a, K = state.arrays, problem.count
        a["passes"][active] += 1
        for name in ("w", "pull", "duals"):
            a[f"{name}_total"][active] += (a["w"][LAST] if name == "w" else a[name])[active]
        a["lift_total"][active] += a["lift"][LAST, active]
        found = [{k: self._candidate(problem, state, v, k) for k in active.tolist()} for v in (LAST, MEAN)]
        duals = np.full((2, K), -math.inf)
        for k in active:
            duals[LAST, k] = self._dual(problem, k, a["pull"][k], a["duals"][k], 1)
            duals[MEAN, k] = self._dual(problem, k, a["pull_total"][k], a["duals_total"][k], int(a["passes"][k]))
        keep_bounds(state, duals.max(axis=0), np.full(K, math.inf))
        shown, a["shown wrong"][:] = self._keep(problem, state, found)
        state.numbers["shown mistakes"] = int(sum(candidate.mistakes for candidate in shown.values()))
        for k in active:
            self._find_zeros(problem, state, k, float(duals[LAST, k]))
            a["gaps"][k] = [found[v][k].primal - float(duals[v, k]) for v in (LAST, MEAN)]
        a["due"][active] = True

    def _candidate(self, problem: Problem, state: State, which: int, k: int) -> Candidate:
        a, lift = state.arrays, float(state.arrays["lift"][which, k])
        sums = a["losses"][which, k]
        losses, rounding, mistakes = (float(sums[name]) for name in (kernel.LOSSES, kernel.ROUNDING, kernel.MISTAKES))
        if lift > 0.0:
            losses += float(self._budgets(problem)[k]) * lift
        return problem.objective.weighed(a["w"][which, k], losses, rounding, mistakes)

    def _dual(self, problem: Problem, k: int, pull: np.ndarray, sums: np.ndarray, passes: int) -> float:
        """The bound of duals whose sums these are, or of the mean of several: the dual objective is concave."""
        return problem.objective.bounds(*self._feasible(problem, k, pull, sums, passes))[0]

    def _feasible(
        self, problem: Problem, k: int, pull: np.ndarray, sums: np.ndarray, passes: int
    ) -> tuple[np.ndarray, Sums]:
        """A^T alpha of the part of these duals that fits the constant and the budget, and its sums."""
        objective = problem.objective
        names = (kernel.DUAL, kernel.ALPHA, kernel.SUMMED, kernel.PULLED)
        sides = []
        for side in sums / passes:
            dual, alpha, summed, pulled = (float(side[name]) for name in names)
            sides.append(Sums(0.0, dual, alpha, 0.0, 0.0, summed=summed, pulled=pulled, rows=problem.present + passes))
        theta, total = objective.balanced(pull / passes, sides)
        budget = float(self._budgets(problem)[k])
        if total.alpha > budget:
            theta, total = budget / total.alpha * theta, total.part(budget / total.alpha)
        return theta, total

    @staticmethod
    def _keep(
        problem: Problem, state: State, found: list[dict[int, Candidate]]
    ) -> tuple[dict[int, Candidate], np.ndarray]:
        """Keep the better of the last weights and the mean ones, for each value of C; returns what they are worth, and
        the rows whose class does not have the largest score.
        """
        a, size = state.arrays, problem.per_trial
        w, chosen, wrong = a["w"][LAST].copy(), dict(found[LAST]), a["wrong"][LAST].copy()
        for trial in range(problem.trials):
            lines = [k for k in range(trial * size, (trial + 1) * size) if k in chosen]
            if sum(found[MEAN][k].primal for k in lines) < sum(found[LAST][k].primal for k in lines):
                w[lines], wrong[trial] = a["w"][MEAN, lines], a["wrong"][MEAN, trial]
                chosen.update({k: found[MEAN][k] for k in lines})
        keep_weights(problem, state, w, [chosen.get(k) for k in range(problem.count)])
        return chosen, wrong

    # steps

    def _advance(self, problem: Problem, state: State, k: int, gaps: list[float]) -> None:
        """The next weights of problem k, after a restart where it is time for one."""
        a = state.arrays
        image, before = a["pull"][k].sum(axis=0), a["image"][k].copy()
        mass, mass_before = float(a["duals"][k, :, kernel.ALPHA].sum()), float(a["mass"][k])
        if self._schedule(problem) is not None:
            if state.numbers["pass"] == 1 and self._schedule(problem) == "dual":
                a["alpha"][k] = 0.0  # where the first of the two steps starts
        elif a["step"][k] == 0.0:
            self._first_step(problem, state, k, image, mass)
            before, mass_before = image, mass
            a["gap_anchor"][k] = min(gaps)
            if self._steps(problem, state) is not None:
                theta = self._feasible(problem, k, a["pull"][k], a["duals"][k], 1)[0]
                wakes = problem.objective.penalty.wakes(problem.objective.penalised(theta))
                a["reach"][k] = a["next_reach"][k] = column_steps.first_reach(problem, k, wakes)
                a["alpha"][k] = 0.0
        elif a["reach"][k] == 0.0:
            self._next_step(state, k, image - before, mass - mass_before)
            if self._due(state, k, min(gaps)):
                image, mass = before, mass_before = self._restart(problem, state, k, image, mass, gaps)
        if a["reach"][k] > 0.0:
            if self._move_columns(problem, state, k, image, mass):
                return
            image, mass = before, mass_before = self._start_over(problem, state, k)
        a["image"][k], a["mass"][k] = image, mass
        a["w_before"][k], a["lift_before"][k] = a["w"][LAST, k], a["lift"][LAST, k]
        if self._schedule(problem) == "dual":  # Algorithm 1 extrapolates its duals by their second step
            before, mass_before = image, mass
        tau = a["step"][k] / a["ratio"][k] * a["tempo"]
        count = a["passes"][k] + 1
        a["w"][LAST, k] = problem.objective.prox(a["w"][LAST, k] + tau * (2.0 * image - before), tau)
        a["w"][MEAN, k] = (a["w_total"][k] + a["w"][LAST, k]) / count
        budget = float(self._budgets(problem)[k])
        if budget < math.inf:
            tau_lift = a["step"][k] / a["ratio"][k] * state.numbers["lift tempo"]
            a["lift"][LAST, k] = max(0.0, a["lift"][LAST, k] + tau_lift * (2.0 * mass - mass_before - budget))
            a["lift"][MEAN, k] = (a["lift_total"][k] + a["lift"][LAST, k]) / count

    def _move_columns(self, problem: Problem, state: State, k: int, image: np.ndarray, mass: float) -> bool:
        """The next reach, and the weights of the columns that a read gathered; returns whether steps on columns go on.

        So they do not where too few columns fit, nor with less memory or other options than before.
        """
        a, penalty = state.arrays, self._steps(problem, state)
        if penalty is None:
            return False
        self._wait(state, k, image, mass)
        stored, reach = self._stored(problem), float(a["reach"][k])
        if not stored:
            a["reach"][k] = a["next_reach"][k]
            return True
        off = float(np.linalg.norm(kept_columns.violations(penalty, a["w"][LAST, k], image)))
        following = kept_columns.improve(problem, penalty, state, k, reach)
        a["w"][MEAN, k] = a["w"][LAST, k]
        crowd = kept_columns.choose(problem, penalty, state, k, image, reach, stored)
        a["reach"][k] = kept_columns.next_reach(state, k, reach, following, off, crowd)
        early = state.numbers["pass"] <= kept_columns.EARLY
        return crowd <= kept_columns.CROWD or (early and crowd < math.inf)

    @staticmethod
    def _wait(state: State, k: int, image: np.ndarray, mass: float) -> None:
        """The weights move when the rows are at hand; nothing is to be a mean of what was before."""
        a = state.arrays
        a["image"][k], a["mass"][k], a["passes"][k] = image, mass, 0
        for name in ("w_total", "lift_total", "total", "pull_total", "duals_total"):
            a[name][k] = 0.0

    def _start_over(self, problem: Problem, state: State, k: int) -> tuple[np.ndarray, float]:
        """Proximal steps from the start: duals that lie far apart are a worse one. The bounds stay that were found."""
        a = state.arrays
        a["reach"][k], a["alpha"][k], a["w"][:, k] = 0.0, 0.0, 0.0
        self._set_constant(problem, state, k)
        self._wait(state, k, np.zeros_like(a["image"][k]), 0.0)
        return a["image"][k].copy(), 0.0

    def _first_step(self, problem: Problem, state: State, k: int, image: np.ndarray, mass: float) -> None:
        """||A|| is at least what A^T does to the first duals, and these and the columns say what a step should be."""
        a = state.arrays
        size = math.sqrt(float(a["duals"][k, :, kernel.MOVED].sum()))
        square = _dot(image, a["tempo"] * image)
        if self._budgets(problem)[k] < math.inf:
            square += state.numbers["lift tempo"] * mass * mass
        length = math.sqrt(square)
        a["step"][k] = size / length if length > 0.0 else 1.0
        a["ratio"][k] = a["ratio"][k] * size or 1.0

    def _next_step(self, state: State, k: int, pulled: np.ndarray, added: float) -> None:
        """tau sigma from what the last step was and what ||A|| it met.

        pulled, added: A^T of the change of alpha, and its sum.
        """
        a, passes = state.arrays, state.numbers["pass"] + 1.0
        change, ratio = a["w"][LAST, k] - a["w_before"][k], float(a["ratio"][k])
        lifted = float(a["lift"][LAST, k] - a["lift_before"][k])
        met = abs(_dot(change, pulled) + lifted * added)
        square = _dot(change, change / a["tempo"]) + lifted * lifted / state.numbers["lift tempo"]
        moved = ratio * square + float(a["duals"][k, :, kernel.MOVED].sum()) / ratio
        longest = moved / (2.0 * met) if met > 0.0 else math.inf
        a["step"][k] = min((1.0 - passes**SHRINK) * longest, (1.0 + passes**GROW) * a["step"][k])

    def _due(self, state: State, k: int, gap: float) -> bool:
        """Whether it is time for a restart, where the better pair has this gap."""
        a = state.arrays
        before, a["gap"][k] = a["gap"][k], gap
        if gap <= SUFFICIENT * a["gap_anchor"][k] or (gap <= NECESSARY * a["gap_anchor"][k] and gap > before):
            return True
        return a["passes"][k] >= LONG * state.numbers["pass"] and state.numbers["pass"] > PATIENCE

    def _restart(
        self, problem: Problem, state: State, k: int, image: np.ndarray, mass: float, gaps: list[float]
    ) -> tuple[np.ndarray, float]:
        """Go on from the better of the last pair and the mean one; returns its A^T alpha and sum alpha."""
        a = state.arrays
        alpha, total, anchor, count = a["alpha"][k], a["total"][k], a["alpha_anchor"][k], int(a["passes"][k])
        if gaps[MEAN] < gaps[LAST]:
            a["w"][LAST, k], a["lift"][LAST, k] = a["w"][MEAN, k], a["lift"][MEAN, k]
            image = a["pull_total"][k].sum(axis=0) / count
            mass = float(a["duals_total"][k, :, kernel.ALPHA].sum()) / count
            np.divide(total, count, out=alpha)
        square = 0.0
        for start in range(0, problem.rows, PIECE):
            rows = slice(start, start + PIECE)
            square += float(np.sum((alpha[rows] - anchor[rows]) ** 2))
        anchor[:] = alpha
        change = a["w"][LAST, k] - a["w_anchor"][k]
        length = _dot(change, change / a["tempo"])
        if 0.0 < length < math.inf and 0.0 < square < math.inf:
            a["ratio"][k] = math.sqrt(a["ratio"][k] * math.sqrt(square / length))
        a["w_anchor"][k] = a["w"][LAST, k]
        a["gap_anchor"][k], a["gap"][k], a["passes"][k] = min(gaps), math.inf, 0
        for name in ("w_total", "lift_total", "total", "pull_total", "duals_total"):
            a[name][k] = 0.0
        return image, mass

    def _find_zeros(self, problem: Problem, state: State, k: int, dual: float) -> None:
        """Columns that the last duals prove to be 0, of a loss that bends everywhere."""
        a, most = state.arrays, largest_bend(problem.loss)
        if most == math.inf or self._budgets(problem)[k] < math.inf:
            return
        theta, sums = self._feasible(problem, k, a["pull"][k], a["duals"][k], 1)
        gap = float(a["best_primal"][k] + a["best_rounding"][k]) - dual
        bend = most * float(problem.caps[k].max()) * self._squares(problem, state)[1]
        a["zeros"][k] |= proven_zeros(problem, theta, sums, gap, bend)

    def zeros(self, problem: Problem, state: State) -> np.ndarray:
        return state.arrays["zeros"][:, :-1]

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return state.arrays["w"][LAST].copy()
