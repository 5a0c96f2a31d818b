"""Dual coordinate ascent; it switches to accelerated ascent when many more passes are predicted."""

from __future__ import annotations

import numpy as np

from streammargin.errors import UsageError
from streammargin.losses.base import called
from streammargin.penalties.base import Penalty
from streammargin.solvers.base import PassReport, Stage, stay
from streammargin.solvers.coordinate.dual_ascent import DualAscent
from streammargin.solvers.coordinate.momentum import Momentum
from streammargin.solvers.coordinate.plain import Plain, PlainAscent
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state
from streammargin.solvers.succession import Succession, passes_left

LOOK = 16  # the number of remaining passes is predicted after 16, 32, 64, ... passes
MANY = 25  # with more remaining passes momentum pays, though its visits cost twice as much; text at C = 1 needs fewer
NAMES = {"auto": "ascent", "no": "sdca", "yes": "asdca"}


@state
class Watch:
    """The gap estimate at the last prediction."""

    estimate: float = 1.0


class Method(Succession):
    """Plain ascent, and momentum from where that is predicted to take many passes. Out of core, where plain ascent
    keeps active rows in memory, there is no change.

    momentum: auto; no, which is called sdca too; yes from the first pass on, which is called asdca too.
    """

    summary = "dual coordinate ascent"
    numeric = True
    blocks_per_step = DualAscent.blocks_per_step
    watch = Watch

    def __init__(self, momentum: str = "auto") -> None:
        self.momentum, self.name = momentum, NAMES[momentum]
        self.requires = (*DualAscent.requires, *([] if momentum == "auto" else ["has_hard_margin"]))

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.hard and self.momentum == "auto":
            raise UsageError("ascent needs a finite C; for C = inf use `solver=asdca`, or sdca")
        if problem.hard:
            check_hard_margin(problem, self.default_loss)

    def serves(self, penalty: Penalty, free: bool) -> bool:
        return super().serves(penalty, free) or (self.momentum == "no" and penalty.norm is not None and not free)

    def stages(self) -> dict[str, Stage]:
        accelerated = Momentum()
        return {
            "plain": Stage(Plain(), leave=leave if self.momentum == "auto" else stay),
            "momentum": Stage(accelerated, enter=lambda problem, before, watch: accelerated.follow(problem, before)),
        }

    def first(self, problem: Problem) -> str:
        return "momentum" if self.momentum == "yes" else "plain"

    def memory(self, problem: Problem) -> int:
        if self.momentum == "auto" and problem.resident:
            return super().memory(problem)
        return self.stages()[self.first(problem)].solver.memory(problem)


def check_hard_margin(problem: Problem, able: str) -> None:
    """UsageError for a loss without a hard margin; able: the name of a loss that has one."""
    if not problem.loss.has_hard_margin():
        raise UsageError(
            f"C = inf is the hard margin, which the loss {called(problem.loss)} does not have; give a finite C, "
            f"or use `loss={able}`"
        )


def leave(problem: Problem, state: PlainAscent, watch: Watch, report: PassReport, active: np.ndarray) -> str:
    """Switch to momentum when more than MANY further passes are predicted, after LOOK, 2 LOOK, 4 LOOK, ... passes."""
    number = state.number
    if not problem.resident or number < LOOK // 2 or number & (number - 1) != 0:
        return ""
    estimate = float(report.estimate[active].max(initial=0.0))
    left = passes_left(watch.estimate, estimate, number // 2, problem.tol)
    watch.estimate = estimate
    return "momentum" if number >= LOOK and left > MANY else ""
