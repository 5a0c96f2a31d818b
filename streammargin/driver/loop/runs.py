"""The outer loop of a training: one run, or one run per C of a path."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streammargin.arrays.threads import one_thread
from streammargin.compiled.jit import small_calls
from streammargin.driver.loop.compiling import kind_of, told_of_kernels
from streammargin.driver.loop.phases import put_off
from streammargin.driver.loop.run import Run
from streammargin.driver.status.outcome import Outcome
from streammargin.driver.status.path import RunPath
from streammargin.driver.status.progress import DONE, PASS
from streammargin.errors import out_of_range
from streammargin.rows.products import MANY_LINES
from streammargin.solvers.problem import Problem


@dataclass
class Runs:
    """The current run; on a path over C each run begins with the state of the one before it.

    The first run of a path stops before its first pass: its prologue tells at which C the path begins.
    """

    run: Run
    path: RunPath | None = None

    def advance(self, reason: str | None) -> None:
        """Do the next unit of work, or end the training for this reason."""
        self.run.advance(reason)
        self.follow()

    def follow(self) -> None:
        """Switch to the run of the next C if the current one has ended."""
        path, run = self.path, self.run
        if path is None or run.doubted:
            return
        if not path.first and run.progress.phase == PASS:
            path.begin(run.solver.zero_factor(run.problem, run.state))
            self.run = run.following(path.at(), [path.C])
        elif run.progress.phase == DONE and path.goes_on(outcome := run.outcome()):
            path.go_on(outcome)
            problem = path.at()
            run.solver.raise_costs(problem, run.state, path.step)
            self.run = run.following(problem, [path.C])

    def outcome(self) -> Outcome:
        """How the last run ended; on a path, with the best run's weights."""
        outcome = self.run.outcome()
        return outcome if self.path is None or self.run.doubted else self.path.chosen(outcome)


def _plain_seconds(problem: Problem) -> float:
    """Rough seconds of the longest kernel call in uncompiled Python, over rows; kernels know how large a Hessian is."""
    square = (problem.values / problem.rows) ** 2
    return 3e-5 * problem.count * (problem.rows * (1.0 + square / 500.0) + square)


def run(training: Runs, between: Callable[[Runs, str | None], None] | None = None) -> Outcome:
    """Do unit after unit until the certificate, the passes, the clock or a signal ends the training.

    between: called before every unit, with the reason if the current run is about to end early.

    The outcome's figures describe its weights, unless a signal ended the training. Held-out errors include the midway
    bias, if one was asked for.
    """
    try:
        # a training with checkpoints always compiles: resumed elsewhere it must give the same bits
        problem = training.run.problem
        plain = math.inf if between is not None or problem.holders > 1 else _plain_seconds(problem)
        history = training.run.history
        kind = kind_of(training.run.method, problem)
        compiling = told_of_kernels(history.progress if history.listeners else None, kind)
        blas = one_thread(problem.in_arrays or problem.lines >= MANY_LINES)
        # overflow is detected in the figures and the weights
        with small_calls(plain), compiling, blas, np.errstate(all="ignore"):
            put_off(training.run)
            while training.run.progress.phase != DONE:
                reason = training.run.met()
                if between is not None:
                    between(training, reason)
                training.advance(reason)
    except OverflowError as error:
        raise out_of_range() from error
    finally:
        training.run.stop_reading()
        training.run.problem.workers.close()
    return training.outcome()
