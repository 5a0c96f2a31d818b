"""The loop of passes: the only file that knows what a pass is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streammargin.answers.base import Answer
from streammargin.answers.linear import LinearAnswer
from streammargin.driver.events import History
from streammargin.driver.midway import Midway
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.stopping import Stopping
from streammargin.driver.validate import Validator
from streammargin.errors import out_of_range
from streammargin.solvers.base import Figures, PassReport, Problem, Solver, State
from streammargin.specs.blocks import Block

SCORES = 1 << 16  # that are worked on at a time
ROUNDING = 1e-12  # a bound on the margin this small, relative to the mean norm of the rows, is 0


@dataclass(frozen=True)
class Limits:
    """When to stop: relative tolerance, passes over the rows, seconds of wall clock (None: no limit).

    sweeps: reads of all rows that may follow the last pass, and must fit into the seconds.
    """

    tol: float
    passes: int
    max_seconds: float | None
    sweeps: int = 1


@dataclass
class Outcome:
    """How a run ended: reason, which of the K problems reached the tolerance, and its last exact figures.

    figures is None when the run was interrupted: `w` then holds weights that nothing was proven of.
    midway (K,): the bias of eq. (15) of the homotopic paper for w, where it was asked for and no signal came.
    """

    reason: str
    converged: np.ndarray
    passes: int
    w: np.ndarray
    figures: list[Figures] | None
    wrong: np.ndarray | None
    valid_errors: np.ndarray | None
    midway: np.ndarray | None = None


class _Interrupted(Exception):
    """A signal came between two blocks."""


class _Run:
    """One training run; attributes are what the phases share."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        reader: BlockReader,
        bias: float,
        limits: Limits,
        validator: Validator | None,
        history: History,
        should_stop: Callable[[], str | None] | None,
        progress: bool,
    ) -> None:
        self.problem, self.solver, self.reader, self.bias = problem, solver, reader, bias
        self.limits, self.validator, self.history = limits, validator, history
        self.should_stop, self.progress = should_stop, progress
        self.started = time.perf_counter()
        self.state: State = solver.start(problem)
        self.active = np.arange(problem.count)
        self.done = np.zeros(problem.count, bool)
        self.impossible = np.zeros(problem.count, bool)
        self.figures: list[Figures] | None = None
        self.wrong: np.ndarray | None = None
        self.valid_errors: np.ndarray | None = None
        self.validated = 0  # the pass whose weights valid_errors belong to
        self.judged = 0  # the pass whose weights `figures` belong to
        self.number = 0
        self.longest_sweep = 0.0
        self.estimate: float | None = None

    def _elapsed(self) -> float:
        return time.perf_counter() - self.started

    def _out_of_time(self) -> bool:
        limit = self.limits.max_seconds
        return limit is not None and self._elapsed() + self.limits.sweeps * self.longest_sweep >= limit

    def _sweep(self, order: np.ndarray, phase: str) -> Iterator[tuple[int, Block]]:
        """(first row, block) in order; publishes progress."""
        from streammargin.kernels.jit import compile_seconds

        started, compiled = self._elapsed(), compile_seconds()
        counts = self.reader.counts
        bytes_before, wait_before = counts.bytes_read, counts.wait_seconds
        rows = 0
        for done, (start, stop, block) in enumerate(self.reader.stream(order)):
            if self.should_stop is not None and self.should_stop() is not None:
                raise _Interrupted
            yield start, block._replace(bias=self.bias)
            rows += stop - start
            if self.progress:
                self.history.progress(
                    {
                        "event": "progress", "phase": phase, "pass": self.number, "block": done + 1,
                        "blocks": len(order), "rows": rows, "seconds": self._elapsed() - started,
                        "bytes_read": counts.bytes_read - bytes_before,
                        "wait_seconds": counts.wait_seconds - wait_before,
                        "estimate": self.estimate, "elapsed": self._elapsed(),
                    }
                )  # fmt: skip
        compiling = compile_seconds() - compiled  # the next sweep will not
        self.longest_sweep = max(self.longest_sweep, self._elapsed() - started - compiling)

    def prologue(self) -> None:
        blocks = len(self.reader.bounds) - 1
        for index in range(self.solver.prologue):
            for first, block in self._sweep(np.arange(blocks), "prologue"):
                self.solver.prologue_block(self.problem, self.state, index, block, first)

    def learn(self) -> tuple[PassReport, str | None]:
        """One pass. Returns its report and the reason to stop inside the pass, if any."""
        self.number += 1
        counts = self.reader.counts
        before = (counts.read_seconds, counts.wait_seconds, counts.bytes_read, self._elapsed())
        self.solver.begin_pass(self.problem, self.state, self.number)
        order = self.solver.order(self.problem, self.state, self.number, len(self.reader.bounds) - 1)
        interrupted = None
        rows = 0
        sweep = self._sweep(order, "pass")
        for first, block in sweep:
            self.solver.run_block(self.problem, self.state, self.active, block, first)
            rows += block.rows()
            if len(order) > 1 and self._out_of_time():
                interrupted = "seconds"
                break
        sweep.close()  # type: ignore[attr-defined]
        report = self.solver.end_pass(self.problem, self.state, self.active)
        seconds = self._elapsed() - before[3]
        waited = counts.wait_seconds - before[1]
        self.estimate = max([0.0, *report.estimate[self.active].tolist()])
        self.history.publish(
            {
                "event": "pass_end", "pass": self.number, "rows": rows, "seconds": seconds,
                "read_seconds": counts.read_seconds - before[0], "compute_seconds": seconds - waited,
                "wait_seconds": waited, "bytes_read": counts.bytes_read - before[2],
                "mistakes": report.mistakes, "rss_bytes": self.history.resident_bytes(), "estimate": self.estimate,
            }
        )  # fmt: skip
        if report.certificate is not None and interrupted is None:
            self._judge(report.certificate, report.wrong, swept=False)
        return report, interrupted

    def certify(self) -> None:
        """A sweep with the weights frozen: exact figures, an event, and problems that are done."""
        self.solver.begin_certificate(self.problem, self.state, self.active)
        for first, block in self._sweep(np.arange(len(self.reader.bounds) - 1), "certificate"):
            self.solver.certify_block(self.problem, self.state, block, first)
        figures, wrong = self.solver.end_certificate(self.problem, self.state)
        self._judge(figures, wrong, swept=True)

    def _judge(self, figures: list[Figures], wrong: np.ndarray | None, swept: bool) -> None:
        self.figures, self.wrong, self.judged = figures, wrong, self.number
        for k in self.active:
            self.done[k] = self.solver.reached(self.problem, figures[k])
            if not self.done[k] and self._hopeless(figures[k]):
                self.impossible[k] = self.done[k] = True
        self.active = np.flatnonzero(~self.done)
        if self.validator is not None and self._worth_validating(swept):
            self.valid_errors = self.validator.errors(self.answer(np.stack([f.w for f in figures])))
            self.validated = self.number
        for trial in range(self.problem.trials):
            known = self.valid_errors is not None and self.validated == self.number
            error = float(self.valid_errors[trial]) if known and self.valid_errors is not None else None
            event = certificate_event(self.problem, trial, figures, wrong, error)
            self.history.publish({"event": "certificate", "pass": self.number, **event})

    def _hopeless(self, figures: Figures) -> bool:
        """Whether the bound on the margin is nearly 0, and no weights are known that separate the rows."""
        upper, lower = figures.margin_upper, figures.margin_lower
        if upper is None or (lower is not None and lower > 0.0):
            return False
        tol = self.problem.tol
        if lower is None or lower == -np.inf:  # no weights were tried yet: only a bound of 0 says anything
            tol = min(tol, ROUNDING)
        return upper < self.solver.smallest_margin(replace(self.problem, tol=tol), self.state)

    def _worth_validating(self, swept: bool) -> bool:
        # where every pass certifies itself, the held-out data would be read as often as the rows
        return swept or not self.active.size or self.number & (self.number - 1) == 0

    def finish(self, reason: str) -> Outcome:
        current = self.figures is not None and reason != "signal"
        if reason != "signal" and self.impossible.any() and not self.active.size:
            reason = "not_separable"
        w = np.stack([f.w for f in self.figures]) if current and self.figures else self._latest()
        converged = self.done & ~self.impossible if current else np.zeros(self.problem.count, bool)
        figures, wrong = (self.figures, self.wrong) if current else (None, None)
        if current and self.validator is not None and self.validated < self.judged:
            self.valid_errors = self.validator.errors(self.answer(w))
        valid_errors = self.valid_errors if current else None
        return Outcome(reason, converged, self.number, w, figures, wrong, valid_errors)

    def answer(self, w: np.ndarray) -> LinearAnswer:
        """The answer of weights w (K, d+1), with the constant column of this run."""
        return LinearAnswer(w, self.bias)

    def midway(self, answer: Answer) -> np.ndarray:
        """A sweep that finds the bias (K,) midway between the classes."""
        found = Midway(self.problem.count)
        weights = self.problem.weights
        piece = max(1, SCORES // self.problem.count)
        for first, block in self._sweep(np.arange(len(self.reader.bounds) - 1), "bias"):
            for low in range(0, block.rows(), piece):  # a block in memory may be all rows
                high = min(block.rows(), low + piece)
                codes = self.problem.codes[first + low : first + high]
                scores = np.empty((high - low, self.problem.count))
                answer.score(block, low, scores)
                there = codes >= 0
                if weights.size:
                    there &= weights[first + low : first + high] > 0.0
                found.add(scores[there], codes[there, None] == self.problem.positive)
        return found.bias()

    def _latest(self) -> np.ndarray:
        return self.solver.weights(self.problem, self.state)


def run(
    problem: Problem,
    solver: Solver,
    reader: BlockReader,
    bias: float,
    limits: Limits,
    validator: Validator | None,
    history: History,
    should_stop: Callable[[], str | None] | None = None,
    progress: bool = False,
    midway: bool = False,
) -> Outcome:
    """Pass after pass until the certificate, the passes, the clock or a signal says stop.

    Unless a signal ended it, the weights of the outcome are the ones whose figures it carries. midway: find a bias for
    them in one more read; the held-out errors are then those with the bias.
    """
    training = _Run(problem, solver, reader, bias, limits, validator, history, should_stop, progress)
    try:
        with np.errstate(all="ignore"):  # what leaves the range of numbers is found in the figures and the weights
            outcome = _passes(training)
    except _Interrupted:
        outcome = training.finish("signal")
        midway = False
    except OverflowError as error:
        raise out_of_range() from error
    if not np.isfinite(outcome.w).all():
        raise out_of_range()
    if midway:
        try:
            outcome.midway = training.midway(training.answer(outcome.w))
        except _Interrupted:  # what was proven before stays
            outcome.reason = "signal"
            return outcome
        if validator is not None:
            shifted = np.column_stack([outcome.w[:, :-1], outcome.midway])
            outcome.valid_errors = validator.errors(LinearAnswer(shifted, 1.0))
    return outcome


def _passes(training: _Run) -> Outcome:
    stopping = Stopping(training.problem.count, training.limits.tol)
    training.prologue()
    while True:
        report, reason = training.learn()
        if reason is None and training.number >= training.limits.passes:
            reason = "passes"
        if reason is None and training._out_of_time():
            reason = "seconds"
        wanted = reason is not None or report.still or stopping.due(report.estimate, training.active)
        if training.active.size and wanted and report.certificate is None:
            before = training.active
            training.certify()
            assert training.figures is not None
            gaps = [f.margin_gap if f.gap is None else f.gap for f in training.figures]
            stopping.learn(np.array([np.inf if g is None else g for g in gaps]), before)
        if report.still and reason is None and training.active.size:
            reason = "passes"  # more of them would change nothing
        if not training.active.size:
            return training.finish("tolerance")
        if reason is not None:
            return training.finish(reason)


def certificate_event(
    problem: Problem, trial: int, figures: list[Figures], wrong: np.ndarray | None, valid_error: float | None
) -> dict[str, Any]:
    """The exact figures of one value of C as plain values (the keys of the certificate event)."""
    chosen = range(trial * problem.per_trial, (trial + 1) * problem.per_trial)
    classes = [figures[k] for k in chosen]
    mistakes = classes[0].mistakes if wrong is None or len(classes) == 1 else int(wrong[trial])

    def worst(values: list[float | None]) -> float | None:
        return None if any(v is None for v in values) else max(v for v in values if v is not None)

    numeric = any(f.residual is not None for f in classes)
    smallest = min(classes, key=lambda f: np.inf if f.margin_lower is None else f.margin_lower)
    return {
        "primal": float(sum(f.primal for f in classes)),
        "dual": float(sum(f.dual for f in classes)),
        "gap": worst([f.gap for f in classes]),
        "margin_lower": smallest.margin_lower,
        "margin_upper": smallest.margin_upper,
        "margin_gap": worst([f.margin_gap for f in classes]),
        "residual": worst([f.residual for f in classes]),
        "mistakes": None if numeric else mistakes,
        "train_error": None if numeric else mistakes / max(1, problem.present),
        "valid_error": valid_error,
        "per_class": [
            {
                "primal": f.primal, "dual": f.dual, "gap": f.gap, "margin_lower": f.margin_lower,
                "margin_upper": f.margin_upper, "margin_gap": f.margin_gap, "residual": f.residual,
                "mistakes": None if numeric else f.mistakes,
            }
            for f in classes
        ],
    }  # fmt: skip
