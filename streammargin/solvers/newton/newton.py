"""Second-order steps: semismooth Newton on the proximal-point form of the dual, plain Newton for smooth losses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.errors import UsageError
from streammargin.rows.blocks import TOGETHER, Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.cache import rows as store
from streammargin.solvers.coordinate import asdca, sdca
from streammargin.solvers.coordinate.ascent import passes_left, take_momentum
from streammargin.solvers.coordinate.dual_ascent import DualAscent
from streammargin.solvers.newton.near_margin import NearMargin, enough_room, keep_sums
from streammargin.solvers.newton.sample import sample, sample_bytes, samples, set_out, takes_all
from streammargin.solvers.newton.subproblem import (
    LINE_SEARCH,
    QUICK,
    UNDER_WAY,
    Proximal,
    direction,
    matrix_work,
    smooth,
    solve,
    step_work,
)
from streammargin.solvers.old_state import Array, Layout, Number, Room, State, layout_bytes, new_state
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.old_best import best_figures, best_layout
from streammargin.solvers.proof.old_sweep import CertifiedBySweep
from streammargin.solvers.proof.rounding import blur

SOFTNESS = 0.5  # 1 / sigma at first, relative to the caps: with 1/8 steps diverged, and 2 takes more of them
START = 6  # passes of coordinate ascent where no sample can start the steps: they bring duals and weights near enough
START_MOST = 20  # of them at most while it is about to get there by itself, as it may not
START_NEAR = 12.0  # times the tolerance: an estimate that is about to get there; steps would cost half as much again
COLUMNS = 200  # with more of them a step costs as much as more such passes, and passes come before a sample too
TAKEN = 15  # steps whose multiplications momentum must beat to go on, where no sample starts them
SAMPLED = 3, 8  # the same where one does, which leaves fewer: of dense rows; of sparse ones or a smooth loss
PASS_WORK = 7  # multiplications that a value costs in such a pass: it waits for memory, as a matrix does not
A_VISIT = 10  # values that a visit of a row takes as long as, beside its own, where duals rest at their bounds
A_SEARCH = 750  # where they never do, as those of the logistic loss: it is a search for the best dual
MOST = 400  # passes until the steps begin: a training has 1000, if nothing else is said
OVERSHOT = 0.3  # a step is shortened if it goes uphill at its end, this steeply relative to its start
LIKELY = 0.9  # of the tolerance: what steps in memory aim at, as one more look is to prove it, not to fall just short
STEPS = 12  # in memory between two looks at most: only a look proves what they gained
WORK = 2e10  # multiplications of these, of all classes, about a second, for the same reason
PROGRESS = 0.9  # a gap that has not fallen to this part of what it was has not moved
PATIENCE = 40  # passes without that until coordinate ascent takes over: a smaller softness moves it again late
RESIDENT = 8  # the same in memory, where a pass is many steps, unless the softness falls, as at a huge C it does long
READS = 8  # the same of rows near the margin, before steps of all rows take over: these are dearer than a few reads
DOWNHILL = 0.1  # of the tolerance: an objective of a smooth loss that falls by it moves, though no bound shows it yet
LEAST_SAMPLE = 5  # rows of a sample to start from, at least, in multiples of the columns: fewer say nothing of all


NO_KEYS = np.empty(0, np.float32)
BOTH: Layout = {"started": Number(False), "seen": Number(0), "before": Number(math.inf)}


class Start(sdca.Method):
    """What the duals start from: one row at a time."""

    name = "newton"

    def layout(self, problem: Problem) -> Layout:
        return {**super().layout(problem), "phase": Number("start"), "lost": Number(False), **BOTH}


class Momentum(asdca.Method):
    """What goes on with those duals."""

    name = "newton"

    def layout(self, problem: Problem) -> Layout:
        return {**super().layout(problem), "phase": Number("momentum"), **BOTH}


class Ascent(asdca.Method):
    """Takes over where Newton's steps lead nowhere; in float64, so that weights keep their certificates."""

    name = "newton"

    def layout(self, problem: Problem) -> Layout:
        return {**super().layout(problem), "phase": Number("ascent"), "seen": Number(0)}


START_METHOD, MOMENTUM, NEAR_MARGIN, ASCENT = Start(), Momentum(), NearMargin(), Ascent()


class Method(CertifiedBySweep):
    """State: weights w and A^T a `image` (K, d+1), centres alpha and margins (K, n), H (K, d+1, d+1), `softness` (K,).

    The best dual bound has no duals of its own: `bound` (K, d+1) is its A^T a, within `slip` (K,) of the exact one,
    `gain` (K,) the rest of it.
    """

    name = "newton"
    summary = "second-order steps"
    requires = (*ASCENT.requires, "slope", "distance", "curvature_bound")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.p != 2.0:
            raise UsageError(f"newton knows the norm p = 2 only, not {problem.p:.6g}; use `norm=2`, or `solver=sdca`")
        if problem.hard:
            raise UsageError("newton needs a finite C; for C = inf use `solver=active-set`")

    def layout(self, problem: Problem) -> Layout:
        own = self._own_layout(problem)
        size = layout_bytes(own)
        layout = {**own, "coordinate ascent": Room(max(0, ASCENT.memory(_double(problem)) - size))}
        if problem.resident and samples(problem):
            layout["sample"] = Room(sample_bytes(problem))
        if _keeps(problem):
            before = NEAR_MARGIN.layout(problem)
            return {**before, "then": Room(max(0, layout_bytes(layout) - layout_bytes(before)))}
        if _starts(problem):
            more = max(0, MOMENTUM.memory(problem) - START_METHOD.memory(problem))
            return {**START_METHOD.layout(problem), "then": Room(layout_bytes(layout) + more)}
        return layout

    def layout_now(self, problem: Problem, state: State) -> Layout:
        if state.numbers["phase"] == "steps":
            return self._own_layout(problem)
        method, problem = _other(problem, state)
        return method.layout(problem)

    def _own_layout(self, problem: Problem) -> Layout:
        K, n, width = problem.count, problem.rows, problem.features + 1
        return {
            "alpha": Array((K, 0 if smooth(problem.loss) else n)),
            "margins": Array((K, n)),
            "norms": Array((n if problem.resident else 0,)),
            "products": Array((0 if problem.resident else K, n)),
            "w": Array((K, width)),
            "image": Array((K, width)),
            "H": Array((0 if problem.resident else K, width, width)),
            "totals": Array((K, kernel.SUMS)),
            "way": Array((K, width)),
            "slope": Array((K,)),
            "bound": Array((K, width)),
            "gain": Array((K,)),
            "slip": Array((K,)),
            "height": Array((K,)),
            "softness": Array((K,), fill=0.0 if smooth(problem.loss) else SOFTNESS),
            "steps": Array((K,), np.int64),
            "made": Array((K,), np.int64),
            "marks": Array((K,), fill=math.inf),
            "lowest": Array((K,), fill=math.inf),
            "moved": Array((K,), bool),
            "due": Array((K,), bool),
            "set out": Array((K,), bool),
            **UNDER_WAY,
            **self.certificates(problem, np.dtype(np.float64)),
            "the steps of one problem": Room(40 * n + 8 * width * (width + 6 + TOGETHER) if problem.resident else 0),
            "phase": Number("steps"),
            "sampling": Number(False),
            "stuck": Number(0),
            "as soft": Number(0),
            "seen": Number(0),
            "part": Number(0),
        }

    def start(self, problem: Problem) -> State:
        if _starts(problem):
            return START_METHOD.start(problem)
        if _keeps(problem):
            return NEAR_MARGIN.start(problem)
        state = self._set_out(problem)
        state.numbers["sampling"] = problem.resident and samples(problem)
        return state

    def _set_out(self, problem: Problem) -> State:
        return new_state(self._own_layout(problem))

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        if state.numbers["phase"] == "near" and state.numbers["leaving"]:
            self._take_all_rows(problem, state)
        super().begin_pass(problem, state, number)
        if state.numbers["phase"] in ("start", "momentum") and state.numbers["started"]:
            self._leave_start(problem, state)
        if state.numbers["phase"] != "steps":
            method, problem = _other(problem, state)
            method.begin_pass(problem, state, number)
        state.numbers["seen"] = state.numbers["part"] = 0

    def order(self, problem: Problem, state: State, number: int, blocks: int) -> np.ndarray:
        if state.numbers["phase"] != "steps":
            method, problem = _other(problem, state)
            return method.order(problem, state, number, blocks)
        return super().order(problem, state, number, blocks)

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        if state.numbers["phase"] != "steps":
            method, problem = _other(problem, state)
            return method.run_block(problem, state, active, block, first)
        if state.numbers["sampling"]:
            return self._set_out_from_sample(problem, state, active, block)
        state.scratch.pop("sample", None)
        due = active[state.arrays["due"][active]]
        if problem.resident and due.size:
            self._step(problem, state, due[0], block, _steps(problem, active))
            return 1.0 - due.size / active.size
        return self._look(problem, state, active, block, first)

    def _look(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        """Add the sums of the rows at the weights as they are."""
        a = state.arrays
        if state.numbers["seen"] == 0:
            # all classes share one count of mistakes: those that are certified stay as they were then
            certified = np.delete(np.arange(problem.count), active)
            a["w"][certified] = a["best"][certified]
            for name in ("image", "totals") if problem.resident else ("image", "totals", "H"):
                a[name][active] = 0.0
            a["wrong"][:] = 0
        work = problem.count * (store.LOOK + (0 if problem.resident else (problem.features + 1) / 2))
        start, stop = store.next_rows(state, block, work, active.size)
        state.numbers["seen"] += stop - start
        kernel.newton_sums(
            store.part(block, start, stop), numbered_from(first + start), problem.labels, problem.loss, active,
            problem.trials, a["softness"], a["w"], blur(a["w"]), a["norms"], a["alpha"], False, a["margins"],
            a["products"], NO_KEYS, a["image"], a["H"], a["totals"], a["wrong"],
        )  # fmt: skip
        return stop / block.rows() if stop < block.rows() else None

    def _step(self, problem: Problem, state: State, k: int, block: Block, most: int) -> None:
        """A unit of the Newton steps of problem k, until a look is likely to prove the weights, or so many are made."""
        a = state.arrays
        labels = problem.labels._replace(positive=problem.positive[k : k + 1], caps=problem.caps[k : k + 1])
        proximal = Proximal(float(a["softness"][k]), float(a["height"][k]), int(a["steps"][k]), int(a["made"][k]))
        w = a["w"][k]
        done = solve(
            [(numbered_from(0), block)], labels, problem.loss, proximal, a["alpha"][k], w, np.zeros_like(w), 0.0,
            LIKELY * problem.tol, most, to_prove=True,
        )  # fmt: skip
        state.multiplications += proximal.multiplications
        if proximal.softness < a["softness"][k]:
            state.numbers["as soft"] = 0
        a["softness"][k], a["height"][k], a["steps"][k] = proximal.softness, proximal.height, proximal.steps
        a["made"][k], a["due"][k] = 0 if done else proximal.made, not done

    def _step_unseen(self, problem: Problem, state: State, k: int) -> None:
        """One Newton step a read: whether it was too long shows at the next read, by the margins before and after."""
        a = state.arrays
        w, way = a["w"][k], a["way"][k]
        gradient = w - a["image"][k]
        slope = float(gradient @ way)
        if slope > OVERSHOT * a["slope"][k] and not a["moved"][k]:
            products = a["products"][k]
            np.negative(products, out=products)  # the way back; the next read writes them anew
            t = kernel.lowest(
                problem.labels, problem.loss, k, a["softness"][k], np.empty(0), a["alpha"][k], a["margins"][k],
                products, -float(w @ way), float(way @ way), -slope, 1.0,
            )  # fmt: skip
            state.multiplications += LINE_SEARCH * problem.rows
            w -= t * way
            way[:] = 0.0
            return
        state.multiplications += matrix_work(w.size, a["totals"][k, kernel.FREE], problem.values / problem.rows)
        way[:] = direction(a["H"][k], gradient)
        a["slope"][k] = -float(gradient @ way)
        w += way
        a["steps"][k] += 1
        a["moved"][k] = False

    def leave_out(self, problem: Problem, state: State) -> None:
        if state.numbers["phase"] == "near":
            NEAR_MARGIN.leave_out(problem, state)

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport | float:
        if state.numbers["phase"] == "ascent":
            return ASCENT.end_pass(_double(problem), state, active)
        if state.numbers["phase"] == "near":
            found = NEAR_MARGIN.end_pass(problem, state, active)
            if isinstance(found, PassReport):
                lost = smooth(problem.loss) or _stuck(problem, state, active) >= READS or not enough_room(problem)
                state.numbers["leaving"] = bool(lost)
            return found
        if state.numbers["phase"] == "start":
            report = START_METHOD.end_pass(problem, state, active)
            number, estimate = state.numbers["pass"], float(report.estimate[active].max(initial=0.0))
            # it is left with the next pass: this one may still be certified
            more = max(1.0, problem.features / COLUMNS)
            near = estimate <= START_NEAR * problem.tol and number < START_MOST * more
            state.numbers["lost"] = samples(problem) and _far(problem, state, estimate) and not near
            state.numbers["started"] = state.numbers["lost"] or (number >= START * more and not near)
            return report
        if state.numbers["phase"] == "momentum":
            report = MOMENTUM.end_pass(problem, state, active)
            state.numbers["started"] = _far(problem, state, float(report.estimate[active].max(initial=0.0)))
            return report
        a = state.arrays
        if state.numbers["seen"] < problem.rows:  # the pass was broken off
            figures = best_figures(problem, state)
            return PassReport(np.array([f.gap for f in figures]), 0, figures)
        keep_sums(problem, state, active)
        figures = best_figures(problem, state)
        gaps = np.array([f.gap for f in figures])
        for k in active:
            a["due"][k] = gaps[k] > problem.tol
            if not problem.resident:
                self._move_centres(problem, state, k)
                if a["due"][k]:
                    self._step_unseen(problem, state, k)
        report = PassReport(gaps, int(a["totals"][:, kernel.MISTAKES].sum()), figures, a["wrong"].copy())
        patience = max(RESIDENT, PATIENCE // _steps(problem, active)) if problem.resident else PATIENCE
        stuck = _stuck(problem, state, active)
        state.numbers["as soft"] += 1
        if stuck >= PATIENCE or min(stuck, state.numbers["as soft"]) >= patience:
            self._hand_over(problem, state)
        return report

    def _move_centres(self, problem: Problem, state: State, k: int) -> None:
        """The proximal step is done once w is near A^T a, and the dual no worse than at the centres."""
        a = state.arrays
        total, image = a["totals"][k], a["image"][k]
        away = 0.5 * float(np.square(a["w"][k] - image).sum())
        dual = total[kernel.DUAL] - 0.5 * float(image @ image)
        if a["softness"][k] > 0.0 and away < 0.5 * total[kernel.GAP] and dual >= a["height"][k]:
            a["height"][k] = dual
            kernel.move_centres(problem.labels, problem.loss, k, a["softness"][k], a["alpha"][k], a["margins"][k])
            if a["steps"][k] <= QUICK:
                a["softness"][k] /= 4.0
            a["moved"][k], a["steps"][k] = True, 0

    def _take_all_rows(self, problem: Problem, state: State) -> None:
        """From here on one step a read with the matrix of all rows: those kept say too little of the others.

        Where there is room for few, or the loss is smooth and near to its quadratic model everywhere, that is so from
        the start, and they are the sample that the weights start from.
        """
        before, number = state.arrays, state.numbers["pass"]
        state.kept.clear()
        after = self._set_out(problem)
        for name in ("bound", "gain", "slip", *best_layout(problem)):
            after.arrays[name][:] = before[name]
        after.arrays["w"][:] = before["w" if number == 1 else "best"]
        if not smooth(problem.loss):
            after.arrays["alpha"][:] = before["alpha"]
            if number == 1:
                after.arrays["softness"][:] = before["softness"]
        state.arrays, state.numbers = after.arrays, {**after.numbers, "pass": number}

    def _set_out_from_sample(self, problem: Problem, state: State, active: np.ndarray, block: Block) -> float:
        """A unit of the first problem that has not set out yet."""
        a = state.arrays
        if "sample" not in state.scratch:
            state.scratch["sample"] = sample(problem, block)
        left = active[~a["set out"][active]]
        k = left[0]
        rows, labels = state.scratch["sample"]
        found = set_out(problem, rows, labels, k, a["w"][k], a["alpha"][k], state)
        if found is not None:
            a["softness"][k] *= found
            a["set out"][k] = True
            a["due"][k] = not takes_all(problem)  # those of a sample prove too little to be looked at before
            state.numbers["sampling"] = left.size > 1
        return 1.0 - left.size / active.size

    def _leave_start(self, problem: Problem, state: State) -> None:
        """From here on momentum, or second-order steps: from a sample, or else from the duals and weights so far."""
        if state.numbers["phase"] == "start" and not state.numbers["lost"]:
            last = state.numbers["before"]
            take_momentum(problem, state, MOMENTUM)
            state.numbers["before"] = last
            return
        if state.numbers["phase"] == "momentum" and not samples(problem):
            for k in range(problem.count):
                MOMENTUM.restart(problem, state, k)
        before, number = state.arrays, state.numbers["pass"]
        after = self._set_out(problem)
        for name in best_layout(problem):
            after.arrays[name][:] = before[name]
        if samples(problem):
            state.arrays, state.numbers = after.arrays, {**after.numbers, "pass": number, "sampling": True}
            return
        after.arrays["w"][:] = before["theta"]
        if not smooth(problem.loss):
            after.arrays["alpha"][:] = before["alpha"]
        for k in range(problem.count):
            # nearly separable rows at a large C: their duals are far from the caps, and so should a step be
            largest, cap = float(before["alpha"][k].max(initial=0.0)), float(problem.caps[k].max())
            after.arrays["softness"][k] *= cap / largest if largest > 0.0 else 1.0
        state.arrays, state.numbers = after.arrays, {**after.numbers, "pass": number}

    def _hand_over(self, problem: Problem, state: State) -> None:
        """From here on coordinate ascent, from the duals of the last step; bounds and best weights stay."""
        a = state.arrays
        alpha = a["alpha"] if a["alpha"].size else np.zeros((problem.count, problem.rows))
        for k in range(problem.count):
            kernel.move_centres(problem.labels, problem.loss, k, a["softness"][k], alpha[k], a["margins"][k])
        kept = {"alpha": alpha, "theta": a["image"], "centre": a["w"][:, -1].copy()}
        kept |= {name: a[name] for name in best_layout(problem)}
        a.clear()
        ascent = ASCENT.start(_double(problem))  # its own duals are zeros, and take no memory
        state.arrays = {**ascent.arrays, **kept}
        state.numbers = {**ascent.numbers, "pass": state.numbers["pass"]}

    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        raise AssertionError("the methods before and after certify their own weights")

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        method, problem = _other(problem, state)
        method.begin_certificate(problem, state, active)

    def certify_block(self, problem: Problem, state: State, block: Block, first: int) -> None:
        method, problem = _other(problem, state)
        method.certify_block(problem, state, block, first)

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        method, problem = _other(problem, state)
        return method.end_certificate(problem, state)

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        method, problem = _other(problem, state)
        return method.weights(problem, state)


def _other(problem: Problem, state: State) -> tuple[DualAscent | NearMargin, Problem]:
    """The method before the second-order steps of all rows, or the one after them, and the problem as it takes it."""
    if state.numbers["phase"] == "ascent":
        return ASCENT, _double(problem)
    # the weights of a sample, which second-order steps may set out from, are certified as those of rows kept
    return {"start": START_METHOD, "momentum": MOMENTUM}.get(state.numbers["phase"], NEAR_MARGIN), problem


def _far(problem: Problem, state: State, estimate: float) -> bool:
    """Whether coordinate ascent takes more passes than second-order steps would, by how its estimate falls.

    That is looked at after twice as many passes each time.
    """
    numbers, number, left = state.numbers, state.numbers["pass"], 0.0
    taken = SAMPLED[problem.sparse or smooth(problem.loss)] if samples(problem) else TAKEN
    visit = A_VISIT if problem.loss.settled(0.0, 1.0) else A_SEARCH
    most = min(MOST, taken * _step_work(problem) / (PASS_WORK * (problem.values + visit * problem.rows)))
    if number & (number - 1) == 0:
        left = passes_left(numbers["before"], estimate, number // 2, problem.tol)
        numbers["before"] = estimate
    return number + left >= most


def _stuck(problem: Problem, state: State, active: np.ndarray) -> int:
    """How many passes have gone by without the gap of any problem falling to a part of what it was.

    Of smooth losses without the objective falling either: that is what their steps go by, and with separable rows at
    a large C there is no bound before it is near the optimum.
    """
    a = state.arrays
    primal, apart = a["best_primal"], a["best_primal"] - a["best_dual"]
    state.numbers["stuck"] += 1
    for k in active:
        if apart[k] < PROGRESS * a["marks"][k]:
            a["marks"][k], state.numbers["stuck"] = apart[k], 0
        if smooth(problem.loss) and primal[k] < (1.0 - DOWNHILL * problem.tol) * a["lowest"][k]:
            a["lowest"][k], state.numbers["stuck"] = primal[k], 0
    return int(state.numbers["stuck"])


def _steps(problem: Problem, active: np.ndarray) -> int:
    """Steps in memory between two looks: of a matrix of the rows that bend, mostly a quarter of all at first."""
    return int(min(STEPS, max(1.0, WORK / (_step_work(problem) * max(1, active.size)))))


def _step_work(problem: Problem) -> float:
    """Multiplications of a step of one problem."""
    return step_work(problem.values, problem.features + 1)


def _starts(problem: Problem) -> bool:
    if not problem.resident or takes_all(problem):
        return False
    return problem.features > COLUMNS or not (samples(problem) or smooth(problem.loss))


def _keeps(problem: Problem) -> bool:
    return not problem.resident and enough_room(problem, LEAST_SAMPLE)


def _double(problem: Problem) -> Problem:
    return replace(problem, dtype=np.dtype(np.float64))
