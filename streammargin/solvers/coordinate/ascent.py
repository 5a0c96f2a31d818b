"""Dual coordinate ascent that goes on with momentum where it would take many passes without."""

from __future__ import annotations

import math

import numpy as np

from streammargin.errors import UsageError
from streammargin.rows.blocks import Block
from streammargin.solvers.base import Blocks, PassReport, Share, Solver
from streammargin.solvers.coordinate import asdca, sdca
from streammargin.solvers.coordinate.dual_ascent import NUMBERS
from streammargin.solvers.old_state import Layout, Number, Room, State, layout_bytes
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.old_best import best_layout

LOOK = 16  # passes after which, and after twice as many each time, the fall of the estimate says how many are left
MANY = 25  # of them pay for momentum, which costs twice as much a visit: text at C = 1 ends before that
LOOKS: Layout = {"leaving": Number(False), "before": Number(1.0)}


class Plain(sdca.Method):
    """One row at a time."""

    name = "ascent"

    def layout(self, problem: Problem) -> Layout:
        return {**super().layout(problem), "phase": Number("plain"), **LOOKS}


class Momentum(asdca.Method):
    """The same with momentum."""

    name = "ascent"

    def layout(self, problem: Problem) -> Layout:
        return {**super().layout(problem), "phase": Number("momentum"), **LOOKS}


PLAIN, MOMENTUM = Plain(), Momentum()


class Method(Solver):
    """The state is that of `sdca`, and from the change on that of `asdca`. Out of core, where `sdca` keeps rows that
    still move in memory, there is no change.
    """

    name = "ascent"
    summary = "dual coordinate ascent, with momentum where it takes long"
    requires = tuple(method for method in PLAIN.requires if method != "has_hard_margin")
    numeric = True
    together = PLAIN.together

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.hard:
            raise UsageError("ascent needs a finite C; for C = inf use `solver=asdca`, or sdca")

    def layout(self, problem: Problem) -> Layout:
        own = PLAIN.layout(problem)
        then = MOMENTUM.memory(problem) if problem.resident else 0
        return {**own, "then": Room(max(0, then - layout_bytes(own)))}

    def layout_now(self, problem: Problem, state: State) -> Layout:
        return _now(state).layout(problem)

    def start(self, problem: Problem) -> State:
        return PLAIN.start(problem)

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        if state.numbers["leaving"]:
            take_momentum(problem, state, MOMENTUM)
        _now(state).begin_pass(problem, state, number)

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> Share:
        return _now(state).run_block(problem, state, active, block, first)

    def run_blocks(self, problem: Problem, state: State, active: np.ndarray, blocks: Blocks) -> Share:
        return _now(state).run_blocks(problem, state, active, blocks)

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        report = _now(state).end_pass(problem, state, active)
        numbers, number = state.numbers, state.numbers["pass"]
        if problem.resident and numbers["phase"] == "plain" and number >= LOOK // 2 and number & (number - 1) == 0:
            estimate = float(report.estimate[active].max(initial=0.0))
            left = passes_left(numbers["before"], estimate, number // 2, problem.tol)
            # the change comes with the next pass: this one may still be certified
            numbers["leaving"], numbers["before"] = number >= LOOK and left > MANY, estimate
        return report

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        _now(state).begin_certificate(problem, state, active)

    def certify_block(self, problem: Problem, state: State, block: Block, first: int) -> None:
        _now(state).certify_block(problem, state, block, first)

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        return _now(state).end_certificate(problem, state)

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return _now(state).weights(problem, state)


def take_momentum(problem: Problem, state: State, method: asdca.Method) -> None:
    """From here on this method, from the duals of `sdca` so far; bounds and best weights stay."""
    before, after = state, method.start(problem)
    for name in ("alpha", "curvature", "theta", "centre", *best_layout(problem)):
        after.arrays[name] = before.arrays[name]
    for name in ("pass", "largest blur", "damping", *NUMBERS):
        after.numbers[name] = before.numbers[name]
    state.arrays, state.numbers = after.arrays, after.numbers


def _now(state: State) -> Plain | Momentum:
    return MOMENTUM if state.numbers["phase"] == "momentum" else PLAIN


def passes_left(before: float, now: float, passes: int, tol: float) -> float:
    """How many it takes until the gap is `tol`, where it fell from `before` to `now` in so many passes."""
    if now <= tol:
        return 0.0
    return passes * math.log(now / tol) / math.log(before / now) if now < before and tol > 0.0 else math.inf
