"""The outer loop of a training: one run, or one run per C of a path. It tells when the compiler is at work."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.core import event

from streammargin.arrays.threads import one_thread
from streammargin.compiled.jit import compile_seconds, small_calls, told_of_compiling
from streammargin.driver.loop.phases import put_off
from streammargin.driver.loop.run import Run
from streammargin.driver.status.outcome import Outcome
from streammargin.driver.status.path import RunPath
from streammargin.driver.status.progress import DONE, PASS
from streammargin.errors import out_of_range
from streammargin.rows.products import MANY_LINES
from streammargin.solvers.problem import Problem

_NAME = "numba:compile"  # Numba's event; kernels that another one calls begin and end within it


_LONG = 5.0  # seconds of compiling before the log says so
_LOG = logging.getLogger("streammargin.compiling")


class _Kernels(event.Listener):
    """Tells of each kernel before and after it is compiled, with those that it calls, and how many of these are done.

    tell: None: nobody listens; then the log says, once, that the compiler takes long.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None] | None) -> None:
        self._listener, self._began = tell, compile_seconds()
        self._depth = self._done = self._parts = 0
        self.logged = False
        self._timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._parts = 0
            self._tell(busy=True)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._done += 1
            self._tell(busy=False)
        elif self._listener is not None:
            self._parts += 1
            self._listener({"event": "compiling", "parts": self._parts})

    def _tell(self, busy: bool) -> None:
        seconds = compile_seconds() - self._began
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener({"event": "compiling", "kernels": self._done, "seconds": seconds, "busy": busy})
        elif busy and not self.logged:
            self._timer = threading.Timer(max(0.0, _LONG - seconds), self._log)
            self._timer.daemon = True
            self._timer.start()

    def _log(self) -> None:
        self.logged = True
        _LOG.warning(
            "compiling loops for this machine, once for each kind of problem; it has taken %g s so far; "
            "`streammargin warmup` compiles all of them in advance",
            _LONG,
        )


@contextlib.contextmanager
def told_of_kernels(tell: Callable[[dict[str, Any]], None] | None) -> Iterator[None]:
    """Tell events `compiling` within this context: one once the compiler takes its time, two for each kernel, parts.

    tell: None: nobody listens, as for `_Kernels`.
    """
    listener = _Kernels(tell)
    event.register(_NAME, listener)
    try:
        with contextlib.nullcontext() if tell is None else told_of_compiling(lambda: tell({"event": "compiling"})):
            yield
    finally:
        event.unregister(_NAME, listener)


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
        compiling = told_of_kernels(history.progress if history.listeners else None)
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
