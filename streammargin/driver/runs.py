"""The loop over the units of a training: of one run, or of several along a path over C."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from streammargin.compiled.jit import small_calls, told_of_compiling
from streammargin.driver import snapshot
from streammargin.driver.outcome import Outcome
from streammargin.driver.path import Path
from streammargin.driver.progress import DONE, PASS
from streammargin.driver.run import Run
from streammargin.driver.saved_state import under
from streammargin.errors import out_of_range
from streammargin.solvers.problem import Problem


class Runs:
    """The run at work; on a path over C each run begins where the one before it ended.

    The first one there is over before its first pass: where the path begins is known then.
    """

    def __init__(self, run: Run, path: Path | None = None) -> None:
        self.run, self.path = run, path

    def advance(self, reason: str | None) -> None:
        """The next unit, or the end of the training for this reason."""
        self.run.advance(reason)
        self._follow()

    def _follow(self) -> None:
        """Change over to the run of the next value, where the one at work has done its part."""
        path, run = self.path, self.run
        if path is None or run.doubted:
            return
        if not path.first and run.progress.phase == PASS:
            path.begin(run.solver.wakes(run.problem, run.state))
            self.run = run.following(path.at(), [path.C])
        elif run.progress.phase == DONE and path.goes_on(outcome := run.outcome()):
            path.go_on(outcome)
            problem = path.at()
            run.solver.dearer(problem, run.state, path.step)
            self.run = run.following(problem, [path.C])

    def outcome(self) -> Outcome:
        """How the last run ended, and on a path what the best one found."""
        outcome = self.run.outcome()
        return outcome if self.path is None or self.run.doubted else self.path.chosen(outcome)

    def save(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All of the training, between two units: (what JSON can hold, arrays by name), not copies."""
        plain, arrays = snapshot.save(self.run)
        if self.path is not None:
            plain["path"], more = self.path.save()
            arrays |= {f"path/{name}": array for name, array in more.items()}
        return plain, arrays

    def restore(self, plain: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Put a training that has not begun where one was saved, of the same problem and plan.

        ValueError as of `snapshot.restore`.
        """
        run = self.run
        if self.path is not None:
            with snapshot.incomplete():
                self.path.restore(plain["path"], under("path/", arrays))
            if self.path.first:
                run = run.following(self.path.at(), [self.path.C])
        snapshot.restore(run, plain, arrays)
        self.run = run
        self._follow()  # a larger tolerance may be met


def _plain_seconds(problem: Problem) -> float:
    """What the longest call of a kernel takes in plain Python, roughly: rows, and matrices of second-order steps."""
    square = problem.features**2
    return 3e-5 * problem.count * (problem.rows * (1.0 + square / 500.0) + square)


def run(training: Runs, between: Callable[[Runs, str | None], None] | None = None) -> Outcome:
    """Block after block until the certificate, the passes, the clock or a signal says stop.

    between: called before every unit, with the reason where the run at work is about to be broken off.

    Unless a signal ended it, the weights of the outcome are the ones whose figures it carries. Held-out errors are
    those with the bias midway, where one was asked for.
    """
    try:
        # a training that may be taken up elsewhere has the bits of compiled kernels alone
        plain = math.inf if between is not None else _plain_seconds(training.run.problem)
        compiling = told_of_compiling(lambda: training.run.history.progress({"event": "compiling"}))
        # what leaves the range of numbers is found in the figures and the weights
        with small_calls(plain), compiling, np.errstate(all="ignore"):
            training.run.identify()
            while training.run.progress.phase != DONE:
                reason = training.run.met()
                if between is not None:
                    between(training, reason)
                training.advance(reason)
    except OverflowError as error:
        raise out_of_range() from error
    finally:
        training.run.stop_reading()
    return training.outcome()
