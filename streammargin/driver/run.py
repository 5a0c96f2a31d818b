"""A training, block by block: the only file that knows what a pass is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.compiled.jit import small_calls, told_of_compiling
from streammargin.driver.clock import Clock
from streammargin.driver.events import History
from streammargin.driver.gain import Gain
from streammargin.driver.midway import Midway
from streammargin.driver.outcome import Limits, Outcome, certificate_event, hopeless, no_margin
from streammargin.driver.path import Path
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import (
    BIAS,
    CERTIFICATE,
    DONE,
    HELD_OUT,
    IDENTITY,
    PASS,
    PREDICTIONS,
    PROLOGUE,
    SCALING,
    Progress,
)
from streammargin.driver.ranges import Ranges
from streammargin.driver.scaling import Scaling
from streammargin.driver.stopping import Stopping
from streammargin.driver.telling import pass_event, progress_event
from streammargin.driver.validate import Predictions, Validator
from streammargin.errors import out_of_range
from streammargin.points.linear import LinearAnswer
from streammargin.rows.blocks import Block
from streammargin.solvers.base import UNIT, Blocks, Method, Share, Solver, multiplications
from streammargin.solvers.cache.rows import LOOK
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.roles import new
from streammargin.sources.watched import WatchedSource
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")


class Run:
    """Visits one block a step, in phases: scaling, prologue, passes with certificates and held-out errors, bias,
    predictions.

    A phase begins, visits blocks and ends; each of these may take several units, a step each, between which the run can
    be stopped and saved (see `Solver`). In a pass a step visits as many blocks as the solver wants together. Before all
    these, where a training goes on and its files may be other ones, the phase of identity reads them once.

    Whatever decides what comes next lies in `state` and `progress` (and in the sums of `scaling`, `validator` and
    `bias`); the clock is asked for nothing but `max_seconds`, and what is told.
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        reader: BlockReader,
        bias: float,
        limits: Limits,
        costs: Sequence[float],
        validator: Validator | None,
        history: History,
        should_stop: Callable[[], str | None] | None = None,
        publish: bool = False,
        midway: bool = False,
        scaling: Scaling | None = None,
        path: Path | None = None,
        watched: Sequence[WatchedSource] = (),
        predictions: Predictions | None = None,
    ) -> None:
        self.problem, self.method, self.reader, self.column = problem, method, reader, bias
        self.limits, self.costs, self.validator, self.history = limits, costs, validator, history
        self.should_stop, self.publish, self.scaling = should_stop, publish, scaling
        self.path, self.predictions = path, predictions
        self.watched = watched  # the rows as they are stored, and the held-out ones; of a training with a checkpoint
        self.doubted: list[int] = []  # those that must be read before the training goes on
        self.bias = Midway(problem.count) if midway else None
        self.ranges = Ranges(problem) if scaling is None else None  # until the first pass is over
        self.gain = Gain()
        none = np.zeros(problem.count, bool)
        self.progress = Progress(none, none.copy(), Stopping(problem.count, limits.tol), stage=method.first(problem))
        self.stages = method.stages()
        self.watch: Any = None if method.watch is None else new(method.watch, problem)
        self.state: Any = self.solver.start(problem)
        self.active = self.progress.active
        # begin, visit, end; all but passes take rows in memory by as many as make a unit
        self._phases: dict[str, tuple[Callable[[], None], Callable[[Blocks], Share], Callable[[], Share]]] = {
            IDENTITY: (self._all_blocks, self._recognise, self._end_identity),
            SCALING: (self._all_blocks, self._scale, self._end_scaling),
            PROLOGUE: (self._all_blocks, self._prologue, self._end_prologue),
            PASS: (self._begin_pass, self._learn, self._end_pass),
            CERTIFICATE: (self._begin_certificate, self._certify, self._end_certificate),
            HELD_OUT: (self._begin_held_out, self._hold_out, self._end_held_out),
            BIAS: (self._begin_bias, self._find_bias, self._end_bias),
            PREDICTIONS: (self._begin_predictions, self._predict, self._end_predictions),
        }
        rows = max(1, int(UNIT * problem.rows / (LOOK * problem.count * max(1, problem.values))))
        self._readers = {PASS: reader, **({SCALING: scaling.reader} if scaling is not None else {})}
        if validator is not None:
            self._readers[HELD_OUT] = validator.reader.pieces(rows)
        if predictions is not None:
            self._readers[PREDICTIONS] = predictions.reader.pieces(rows)
        self._pieces = reader.pieces(rows)
        self.progress.go(SCALING if scaling is not None else self._after_scaling())
        self.clock = Clock(limits, self.at_work.counts)
        self._blocks: Iterator[list[tuple[int, int, Block]]] | None = None
        self._group: list[tuple[int, int, Block]] = []  # that is visited

    @property
    def solver(self) -> Solver:
        """The one at work."""
        return self.stages[self.progress.stage].solver

    def met(self) -> str | None:
        """Why to end before the next unit: a limit that is met, or a signal.

        Looked at between units, so that a run under a limit is the beginning of the run without.
        """
        p = self.progress
        if p.phase == PASS and p.number >= self.limits.passes and not p.order.size:
            return "passes"
        longest, afterwards = self.clock.longest, None
        if p.phase in (SCALING, PROLOGUE, PASS):
            sweep = max([seconds for phase, seconds in longest.items() if phase != HELD_OUT], default=0.0)
            afterwards = self.limits.sweeps * sweep + longest.get(HELD_OUT, 0.0) if p.number else 0.0
        if self.clock.up(afterwards):
            return "seconds"
        return "signal" if self.should_stop is not None and self.should_stop() is not None else None

    def advance(self, reason: str | None) -> None:
        """The next unit, or the end for this reason."""
        if reason is None:
            self.step()
        else:
            self.break_off(reason)

    def step(self) -> None:
        """One unit, and what follows from that."""
        p = self.progress
        begin, visit, end = self._phases[p.phase]
        if not p.order.size:
            begin()
            self.clock.set_off(self.at_work.counts)
        if p.position < len(p.order):
            self._visit(visit)
            if p.position < len(p.order):
                return
            self.stop_reading()
            self.clock.over(p.phase, self.spent())
        share = end()
        if share is not None:
            self._tell(share, 1)

    def _visit(self, visit: Callable[[Blocks], Share]) -> None:
        """A unit of a visit; the group of blocks stays until all of them are made."""
        p = self.progress
        if self._blocks is None:
            self._blocks = self.at_work.groups(p.order[p.position :], self.solver.together if p.phase == PASS else 1)
        group = self._group = self._group or next(self._blocks)
        share = visit([(start, block._replace(bias=self.column)) for start, _, block in group])
        if share is None:
            self._group = []
            p.position += len(group)
            p.rows += sum(stop - start for start, stop, _ in group)
        begun = (share or 0.0) * sum(stop - start for start, stop, _ in group)
        self._tell(p.position + (share or 0.0) * len(group), len(p.order), int(begun))

    def break_off(self, reason: str) -> None:
        """End here: with a last certificate, or at once and without one where a signal came."""
        p = self.progress
        self.stop_reading()
        if p.phase == IDENTITY:
            self.progress = self._aside
            self.finish("signal")
            self.progress.reason = reason
        elif p.phase == PREDICTIONS:  # all but these is known
            p.predicted = None
            p.go(DONE)
        elif p.phase in (HELD_OUT, BIAS):  # what was proven before stays
            if p.phase == HELD_OUT:
                p.valid_errors, p.validated = None, p.judged
                self._tell_certificates()
            p.proven = True
            self._end(reason)
        elif reason == "signal" or p.phase == CERTIFICATE:
            self.finish(reason)
        else:
            p.ending = reason
            if p.phase == PASS and p.order.size:
                self.solver.leave_out(self.problem, self.state)
                self._end_pass()
            elif p.phase == PASS and p.judged < p.number:
                p.go(CERTIFICATE)
            else:
                self.finish(reason)

    def spent(self) -> tuple[float, ...]:
        """Seconds, seconds reading, seconds waiting and bytes of the read at work."""
        return self.clock.spent(self.progress.spent, self.at_work.counts)

    def _tell(self, done: float, of: int, begun: int | None = None) -> None:
        """Progress: blocks that are done of the read at work, and rows of one begun; or of what ends it."""
        if self.publish:
            self.history.progress(progress_event(self.progress, self.clock, self.spent(), done, of, begun))

    # reading

    @property
    def bounds(self) -> np.ndarray:
        """Of the blocks of the read at work."""
        return self.at_work.bounds

    @property
    def at_work(self) -> BlockReader:
        """The reader of the read at work."""
        phase = self.progress.phase
        if phase == IDENTITY:
            if self.validator is not None and self.doubted[0]:
                return self.validator.reader
            phase = SCALING if self._aside.phase == SCALING else PASS
        return self._readers.get(phase, self._pieces)

    def _all_blocks(self) -> None:
        self.progress.order = np.arange(len(self.at_work.bounds) - 1)

    def stop_reading(self) -> None:
        """Let go of the block and of the reader's thread."""
        self._group = []
        if self._blocks is not None:
            self._blocks.close()  # type: ignore[attr-defined]
            self._blocks = None

    # identity

    def identify(self) -> None:
        """Called once before the first step: put off where the training stands until doubted rows were read."""
        if self.doubted:
            self._aside = self.progress
            self.progress = replace(self.progress)
            self._next_doubted()

    def _next_doubted(self) -> None:
        self.progress.go(IDENTITY)
        self._counts = replace(self.at_work.counts)

    def _recognise(self, blocks: Blocks) -> None:
        """Nothing: the source compares what it reads."""

    def _end_identity(self) -> None:
        vars(self.at_work.counts).update(vars(self._counts))  # as if it had not been
        self.watched[self.doubted[0]].settle()
        self.doubted = self.doubted[1:]
        if self.doubted:
            self._next_doubted()
        else:
            self.progress = self._aside
            self.clock.set_off(self.at_work.counts)

    # scaling and prologue

    def _scale(self, blocks: Blocks) -> None:
        [(first, block)] = blocks
        assert self.scaling is not None
        self.scaling.add(first, block)

    def _end_scaling(self) -> None:
        assert self.scaling is not None
        self.scaling.finish()
        self.progress.go(self._after_scaling())

    def _after_scaling(self) -> str:
        return PROLOGUE if self.progress.round < self.method.prologue_passes(self.problem) else PASS

    def _prologue(self, blocks: Blocks) -> Share:
        [(first, block)] = blocks
        share = self.solver.prologue_block(self.problem, self.state, self.progress.round, block, first)
        if share is None:
            self.state.multiplications += multiplications(blocks, self.problem.count)
        return share

    def _end_prologue(self) -> None:
        p = self.progress
        p.round += 1
        p.go(self._after_scaling())
        if self.path is not None and p.phase == PASS:
            self.path.begin(self.solver.wakes(self.problem, self.state))
            self.take_path()

    # passes

    def _begin_pass(self) -> None:
        p = self.progress
        p.number += 1
        if p.due:
            self._change_over()
        self.solver.begin_pass(self.problem, self.state, p.number)
        p.order = self.solver.order(self.problem, self.state, p.number, len(self.reader.bounds) - 1)

    def _change_over(self) -> None:
        """The stage that is due takes the place of the one at work."""
        p, before = self.progress, self.state
        after: Any = self.stages[p.due].enter(self.problem, before, self.watch)
        after.labels, after.number, after.multiplications = before.labels, before.number, before.multiplications
        self.state, p.stage, p.due = after, p.due, ""

    def _learn(self, blocks: Blocks) -> Share:
        share = self.solver.run_blocks(self.problem, self.state, self.active, blocks)
        if self.ranges is not None and share is None:
            for first, block in blocks:
                self.ranges.add(first, block)
        if share is None:
            self.state.multiplications += multiplications(blocks, self.active.size)
        return share

    def _end_pass(self) -> Share:
        p = self.progress
        report = self.solver.end_pass(self.problem, self.state, self.active)
        if isinstance(report, float):
            return report
        p.due = self.stages[p.stage].leave(self.problem, self.state, self.watch, report, self.active)
        p.estimate = max([0.0, *report.estimate[self.active].tolist()])
        reads = self.reader.counts.bytes_read / max(1, self.problem.size)
        self.history.publish(pass_event(p, self.problem, report, self.spent(), reads, self.state.multiplications))
        if self.ranges is not None:
            p.ranges, self.ranges = self.ranges.remark(), None
            if p.ranges is not None:
                LOG.warning(Message(p.ranges), extra={"code": "scale"})
        if (text := self.gain.remark(p.estimate, report.certificate or p.figures or [])) is not None:
            LOG.warning(Message(text if p.ranges is None else f"{text}; {p.ranges}"), extra={"code": "no_gain"})
        whole = p.position == len(p.order)
        if report.certificate is not None:
            if whole:
                self._judge(report.certificate, report.wrong, swept=False)
                return None
        elif p.ending is not None or report.still or p.stopping.due(report.estimate, self.active):
            if report.still and p.ending is None:
                p.ending = "passes"  # more of them would change nothing
            p.go(CERTIFICATE)
            return None
        self._go_on()
        return None

    def _go_on(self) -> None:
        """After a pass that was certified, or needs no certificate."""
        p = self.progress
        if not self.active.size and self.path is not None and self.path.more:
            self._next_on_path(self.path)
        elif not self.active.size:
            self.finish("tolerance")
        elif p.ending is not None:
            self.finish(p.ending)
        else:
            p.go(PASS)

    def take_path(self) -> None:
        """Take the value of C that the path is at."""
        assert self.path is not None
        self.problem, self.costs = self.path.at(), [self.path.C]

    def _next_on_path(self, path: Path) -> None:
        p = self.progress
        self._keep_on_path(path)
        path.number += 1
        self.take_path()
        self.solver.dearer(self.problem, self.state, path.step)
        none = np.zeros(self.problem.count, bool)
        fresh = Progress(none, none.copy(), Stopping(self.problem.count, self.limits.tol))
        # nothing is left to certify before the next pass
        now = p.number
        self.progress = replace(fresh, stage=p.stage, due=p.due, number=now, judged=now, told=now, validated=now,
                                round=p.round, estimate=p.estimate, ranges=p.ranges)  # fmt: skip
        self.active = self.progress.active
        self.progress.go(PASS)

    def _keep_on_path(self, path: Path) -> None:
        p = self.progress
        if p.figures is not None:
            path.keep(p.figures, p.wrong, p.valid_errors, p.number)

    # certificates

    def _begin_certificate(self) -> None:
        self.solver.begin_certificate(self.problem, self.state, self.active)
        self._all_blocks()

    def _certify(self, blocks: Blocks) -> None:
        [(first, block)] = blocks
        self.state.multiplications += multiplications(blocks, self.problem.count)
        self.solver.certify_block(self.problem, self.state, block, first)

    def _end_certificate(self) -> None:
        figures, wrong = self.solver.end_certificate(self.problem, self.state)
        gaps = [f.margin_gap if f.gap is None else f.gap for f in figures]
        self.progress.stopping.learn(np.array([np.inf if g is None else g for g in gaps]), self.active)
        self._judge(figures, wrong, swept=True)

    def _judge(self, figures: list[Figures], wrong: np.ndarray | None, swept: bool) -> None:
        p = self.progress
        p.figures, p.wrong, p.judged = figures, wrong, p.number
        for k in self.active:
            p.done[k] = self.over(figures[k])
            if not p.done[k] and hopeless(self.solver, self.problem, self.state, figures[k]):
                p.impossible[k] = p.done[k] = True
        self.active = p.active
        if self.validator is not None and self._worth_validating(swept):
            p.go(HELD_OUT)
        else:
            self._tell_certificates()
            self._go_on()

    def _tell_certificates(self) -> None:
        p = self.progress
        if p.told == p.judged or p.figures is None:
            return
        p.told = p.judged
        for trial in range(self.problem.trials):
            known = p.valid_errors is not None and p.validated == p.number
            error = float(p.valid_errors[trial]) if known and p.valid_errors is not None else None
            event = certificate_event(self.problem, trial, p.figures, p.wrong, error)
            work = {"multiplications": round(self.state.multiplications)}
            self.history.publish({"event": "certificate", "pass": p.number, "C": self.costs[trial], **event, **work})

    def over(self, figures: Figures) -> bool:
        return self.solver.reached(self.problem, figures) or self.solver.satisfied(self.problem, figures)

    def _unproven(self) -> np.ndarray:
        """Which problems ended, if they did, because the solver is satisfied, with no proof within the tolerance."""
        assert self.progress.figures is not None
        solver, problem, known = self.solver, self.problem, self.progress.figures
        return np.array([solver.satisfied(problem, f) and not solver.reached(problem, f) for f in known])

    def verdict(self) -> str:
        """The reason where nothing is left to do."""
        p = self.progress
        if p.impossible.any():
            assert p.figures is not None
            impossible = [p.figures[k] for k in np.flatnonzero(p.impossible)]
            proven = any(no_margin(self.solver, self.problem, self.state, one) for one in impossible)
            return "not_separable" if proven else "small_margin"
        return "separated" if self._unproven().any() else "tolerance"

    def _worth_validating(self, swept: bool) -> bool:
        # where every pass certifies itself, the held-out data would be read as often as the rows
        number = self.progress.number
        return swept or not self.active.size or number & (number - 1) == 0

    def _begin_held_out(self) -> None:
        assert self.validator is not None
        self.validator.begin()
        self._all_blocks()

    def _hold_out(self, blocks: Blocks) -> None:
        [(first, block)] = blocks
        p = self.progress
        assert self.validator is not None and p.figures is not None
        answer = self.answer(_stacked(p.figures))
        if p.midway is not None:
            answer = LinearAnswer(np.column_stack([answer.w[:, :-1], p.midway]), 1.0)
        self.validator.add(answer, first, block)

    def _end_held_out(self) -> None:
        p = self.progress
        assert self.validator is not None
        p.valid_errors, p.validated = self.validator.errors(), p.judged
        self._tell_certificates()
        if p.reason is None:
            self._go_on()
        else:
            self._end(p.reason)

    # the end

    def finish(self, reason: str) -> None:
        """The weights are those certified last, unless a signal came."""
        p = self.progress
        p.proven = p.figures is not None and reason != "signal"
        if reason != "signal" and not self.active.size:
            reason = self.verdict()
        if not np.isfinite(self.weights()).all():
            raise out_of_range()
        if p.proven and self.validator is not None and p.validated < p.judged:
            p.go(HELD_OUT)
            return
        if self.path is not None and reason != "signal":
            self._keep_on_path(self.path)
        p.reason = reason
        if self.bias is not None and reason != "signal":
            p.go(BIAS)
        else:
            self._end(reason)

    def _end(self, reason: str) -> None:
        """The weights stand; what is left is a look at what they predict."""
        p = self.progress
        p.reason = reason
        p.go(DONE)
        if self.predictions is None or not p.proven or reason == "signal":
            return
        p.predicted = self.predictions.known(self.outcome())
        if p.predicted is None and (self.problem.resident or reason != "seconds"):
            p.go(PREDICTIONS)

    def _begin_predictions(self) -> None:
        assert self.predictions is not None
        self.progress.predicted = np.zeros(len(self.predictions.there), bool)
        self._all_blocks()

    def _predict(self, blocks: Blocks) -> None:
        """Ends when every class was seen."""
        [(first, block)] = blocks
        p = self.progress
        assert self.predictions is not None and p.predicted is not None
        self.predictions.add(self.outcome(), p.predicted, first, block)
        if p.predicted.all():
            p.order = p.order[: p.position + 1]

    def _end_predictions(self) -> None:
        self.progress.go(DONE)

    def _begin_bias(self) -> None:
        assert self.bias is not None
        self.bias.begin()
        self._all_blocks()

    def _find_bias(self, blocks: Blocks) -> None:
        [(first, block)] = blocks
        assert self.bias is not None
        self.bias.add_block(block, first, self.answer(self.weights()), self.problem)

    def _end_bias(self) -> None:
        assert self.bias is not None
        p = self.progress
        p.midway = self.bias.bias()
        if self.validator is not None:
            p.go(HELD_OUT)
        else:
            assert p.reason is not None
            self._end(p.reason)

    def weights(self) -> np.ndarray:
        """The weights (K, d+1) that were certified last, or the latest ones where nothing was proven."""
        p = self.progress
        if p.proven and p.figures is not None:
            return _stacked(p.figures)
        return self.solver.weights(self.problem, self.state)

    def answer(self, w: np.ndarray) -> LinearAnswer:
        """The answer of weights w (K, d+1), with the constant column of this run."""
        return LinearAnswer(w, self.column)

    def outcome(self) -> Outcome:
        """How it ended."""
        p = self.progress
        assert p.reason is not None, "the training is not done"
        if self.doubted:  # of these rows nothing is known yet
            return Outcome(p.reason, np.zeros_like(p.done), p.number, self.weights(), None, None, None)
        figures, wrong = (p.figures, p.wrong) if p.proven else (None, None)
        converged = p.done & ~p.impossible & ~self._unproven() if p.proven else np.zeros_like(p.done)
        errors = p.valid_errors if p.proven or p.midway is not None else None
        asked = None
        if self.problem.objective.infeasible:
            asked = self.problem.tol * self.solver.mean_norm(self.problem, self.state)
        zeros = self.solver.zeros(self.problem, self.state)
        found = Outcome(
            p.reason, converged, p.number, self.weights(), figures, wrong, errors, p.midway, asked, zeros,
            predicted=p.predicted, ranges=p.ranges,
        )  # fmt: skip
        return found if self.path is None else self.path.chosen(found)


def _stacked(figures: list[Figures]) -> np.ndarray:
    """The weights (K, d+1) that they belong to."""
    return np.stack([f.w for f in figures]) if len(figures) > 1 else figures[0].w[np.newaxis]  # of many a copy counts


def _plain_seconds(problem: Problem) -> float:
    """What the longest call of a kernel takes in plain Python, roughly: rows, and matrices of second-order steps."""
    square = (problem.features + 1) ** 2
    return 3e-5 * problem.count * (problem.rows * (1.0 + square / 500.0) + square)


def run(training: Run, between: Callable[[Run, str | None], None] | None = None) -> Outcome:
    """Block after block until the certificate, the passes, the clock or a signal says stop.

    between: called before every unit, with the reason where the run is about to be broken off.

    Unless a signal ended it, the weights of the outcome are the ones whose figures it carries. Held-out errors are
    those with the bias midway, where one was asked for.
    """
    try:
        # a training that may be taken up elsewhere has the bits of compiled kernels alone
        plain = math.inf if between is not None else _plain_seconds(training.problem)
        compiling = told_of_compiling(lambda: training.history.progress({"event": "compiling"}))
        # what leaves the range of numbers is found in the figures and the weights
        with small_calls(plain), compiling, np.errstate(all="ignore"):
            training.identify()
            while training.progress.phase != DONE:
                reason = training.met()
                if between is not None:
                    between(training, reason)
                training.advance(reason)
    except OverflowError as error:
        raise out_of_range() from error
    finally:
        training.stop_reading()
    return training.outcome()
