"""Dual coordinate ascent; it switches to accelerated ascent when many more passes are predicted."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.errors import Refusal, UsageError
from streammargin.kinds import Word
from streammargin.losses.base import coupled
from streammargin.penalties.base import Penalty
from streammargin.solvers.base import (
    ANY_P,
    BY_ROW,
    FOLDS,
    NUMBERS,
    SEVERAL,
    Method,
    PassReport,
    Stage,
    solvers_of,
    stay,
)
from streammargin.solvers.coordinate.apart import ApartLines, ApartRows
from streammargin.solvers.coordinate.coupled import Coupled
from streammargin.solvers.coordinate.drawn import IMPORTANCE, UNIFORM, DrawnMomentum, DrawnPlain
from streammargin.solvers.coordinate.dual_ascent import DualAscent
from streammargin.solvers.coordinate.momentum import Momentum
from streammargin.solvers.coordinate.plain import Plain, PlainAscent
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state
from streammargin.words import entry

PERMUTATION = "permutation"
FIRST_LOOK_PASSES = 16  # here, and after twice as many each time, the fall of the estimate says how many are left
MOMENTUM_PASSES = 25  # of them pay for momentum, which costs twice as much a visit: text at C = 1 ends before that


@state
class AscentWatch:
    """The gap estimate at the last prediction."""

    estimate: float = 1.0


class Ascent(Method):
    """Dual coordinate ascent, one row at a time; for many columns; any loss with a dual, finite C.

    For each row i, in random order, with L_i = ||x_i||_q^2 / (p - 1) (for l2: ||x_i||^2):
        u <- y_i x_i.w
        alpha_i <- the best dual, of all classes at once if they are joint, at u and L_i    (hinge: clip to [0, C s_i])
        theta <- theta + (change of alpha_i) y_i x_i,   w <- mirror(theta)    (for l2: w = theta)
    A certificate read computes the duality gap of w and alpha.
    Orders: a permutation in each pass; uniform and importance draw with replacement, out of core within each block.
    With momentum (p > 1) the steps start from a sequence z that runs ahead of alpha, with restarts. momentum=auto
    measures how the gap falls after 16 passes, 32, 64, ..., and changes to it if many are left.
    Out of core, rows that still move stay in memory between two reads. Only l2 and lp have momentum.

    Source: Shalev-Shwartz and Zhang 2013; lp-norm perceptron paper, Algorithm 1 and appendix C; momentum: Fercoq and
    Richtarik 2015; all classes at once: Keerthi et al. 2008.
    """

    name = "ascent"
    momentum: str = entry(
        "auto", Word(("auto", "yes", "no")), "no: never, as sdca; yes: from the first pass on, as asdca; "
        "auto: for rows in memory, once it saves passes", kw_only=True,
    )  # fmt: skip
    order: str = entry(
        PERMUTATION, Word((PERMUTATION, UNIFORM, IMPORTANCE)), "permutation: each row once a pass, unless it is "
        "skipped; the paper's, with replacement, out of core within a block: uniform, or importance, in proportion to "
        "L; auto is then momentum=no",
        kw_only=True,
    )  # fmt: skip
    steps: str | None = entry(
        None, Word(("equal",)), "equal: all rows have the step 1 / max L_i, with order=uniform; none: each its 1 / L_i",
        kw_only=True,
    )  # fmt: skip
    takes: ClassVar[tuple[str, ...]] = (NUMBERS, SEVERAL, FOLDS, ANY_P)
    blocks_per_step: ClassVar[int] = DualAscent.blocks_per_step
    watch: ClassVar[type | None] = AscentWatch
    requires: ClassVar[tuple[str, ...]] = DualAscent.requires

    @property
    def called(self) -> str:
        return {"no": "sdca", "yes": "asdca"}.get(self.momentum, self.name)

    @property
    def undecided(self) -> bool:
        """Whether the passes tell if momentum pays."""
        return self.momentum == "auto" and self.order == PERMUTATION

    def required(self) -> tuple[str, ...]:
        return self.requires if self.undecided else (*self.requires, "has_hard_margin")

    @property
    def couples(self) -> tuple[str, ...]:
        return Coupled.couples if self.momentum != "yes" and self.order == PERMUTATION else ()

    def check(self, problem: Problem) -> None:
        if coupled(problem.loss) and not self.couples:
            wrong = "for all outputs at once ascent has neither momentum nor rows drawn with replacement"
            raise Refusal(wrong, "use `solver=ascent`")
        super().check(problem)
        if coupled(problem.loss) and not problem.ridge:
            raise Refusal("for all outputs at once ascent takes the penalty l2 alone", "use `penalty=l2`")
        if self.steps and self.order != UNIFORM:
            raise UsageError("equal steps are those of the paper: give order=uniform with steps=equal, or leave it out")
        if problem.holders > 1 and not problem.ridge:
            hint = "train on one machine" if problem.lp else "use `solver=auto`"
            raise Refusal("on several machines ascent takes the penalty l2 alone", hint)
        if self.momentum == "yes" and self.order == IMPORTANCE:
            raise UsageError("momentum draws rows with equal probability: give order=uniform with it, or momentum=no")
        if problem.from_weights:
            self._check_weights(problem)
        if problem.hard and self.undecided:
            raise Refusal("ascent needs a finite C", "for C = inf use `solver=asdca`")
        if problem.hard:
            check_hard_margin(problem, self.default_loss)

    def _check_weights(self, problem: Problem) -> None:
        """UsageError for a problem whose duals follow from no weights."""
        for refused, why, hint in (
            (self.order != PERMUTATION, "with rows drawn with replacement", "use `solver=ascent`"),
            (problem.hard, "at C = inf", "give a finite C" + ", or use `solver=active-set`" * (problem.p == 2.0)),
            (not problem.lp, f"under `penalty={problem.penalty_word}`", "use `solver=pdprox`"),
            (problem.holders > 1, "on several machines", "use `solver=pdprox`"),
        ):
            if refused:
                raise UsageError(f"{self.called} cannot begin from weights {why}; {hint}, or leave out `init`")

    def lacks(self, penalty: Penalty, free: bool) -> str | None:
        if super().lacks(penalty, free) is None or (self.momentum != "yes" and penalty.norm is not None and not free):
            return None
        if self.momentum == "yes":
            return "momentum is for l2 and lp alone"
        return f"{self.called} needs the norm of a strongly convex penalty, and this one has none"

    def stages(self) -> dict[str, Stage]:
        plain, accelerated = Plain(precise=False), Momentum(precise=False)
        if self.order != PERMUTATION:
            equal = self.steps is not None
            plain, accelerated = DrawnPlain(False, self.order, equal), DrawnMomentum(False, self.order, equal)
        return {
            "plain": Stage(plain, leave=leave if self.undecided else stay),
            "momentum": Stage(accelerated, enter=lambda problem, before, watch: accelerated.follow(problem, before)),
            "coupled": Stage(Coupled()),
            "apart": Stage(ApartRows(precise=True)),
            "coupled_apart": Stage(ApartLines()),
        }

    @property
    def whole(self) -> str:
        return "" if self.undecided else BY_ROW

    def route(self, problem: Problem) -> tuple[str, ...]:
        apart = problem.holders > 1
        if coupled(problem.loss):
            return ("coupled_apart" if apart else "coupled",)
        if apart:
            return ("apart",)
        return ("momentum",) if self.momentum == "yes" else ("plain", "momentum")

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if self.steps else 0

    def memory(self, problem: Problem) -> int:
        stages = solvers_of(self, problem)
        return max(solver.memory(problem) for solver in stages[: None if self.undecided and problem.resident else 1])


def check_hard_margin(problem: Problem, able: str) -> None:
    """Refusal of a loss without a hard margin; able: the name of a loss that has one."""
    if not problem.loss.has_hard_margin():
        wrong = f"C = inf is the hard margin, which the loss {problem.loss_called} does not have"
        raise Refusal(wrong, f"give a finite C, or use `loss={able}`")


def leave(problem: Problem, state: PlainAscent, watch: AscentWatch, report: PassReport, active: np.ndarray) -> str:
    """Switch to momentum when over MOMENTUM_PASSES more are predicted, after 1, 2, 4, ... times FIRST_LOOK_PASSES."""
    number = state.number
    if not (problem.lp and problem.resident) or number < FIRST_LOOK_PASSES // 2:
        return ""
    left = predicted_left(problem, watch, number, float(report.estimate[active].max(initial=0.0)))
    return "momentum" if number >= FIRST_LOOK_PASSES and left > MOMENTUM_PASSES else ""


def predicted_left(problem: Problem, watch: AscentWatch, number: int, estimate: float) -> float:
    """How many passes are left by the fall of the gap estimate; 0 but for passes 1, 2, 4, 8, ..."""
    if number & (number - 1) != 0:
        return 0.0
    left = passes_left(watch.estimate, estimate, number // 2, problem.tol)
    watch.estimate = estimate
    return left


def passes_left(before: float, now: float, passes: int, tol: float) -> float:
    """Predicted passes until the gap is `tol`, given that it fell from `before` to `now` in this many passes."""
    if now <= tol:
        return 0.0
    return passes * math.log(now / tol) / math.log(before / now) if now < before and tol > 0.0 else math.inf
