"""A training, block by block: the only file that knows what a pass is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from streammargin.answers.linear import LinearAnswer
from streammargin.data.watched import WatchedSource
from streammargin.driver.events import History, resident_bytes
from streammargin.driver.midway import Midway
from streammargin.driver.outcome import Limits, Outcome, certificate_event
from streammargin.driver.path import Path
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import BIAS, CERTIFICATE, DONE, IDENTITY, PASS, PROLOGUE, SCALING, Progress
from streammargin.driver.ranges import Ranges
from streammargin.driver.scaling import Scaling
from streammargin.driver.stopping import Stopping
from streammargin.driver.validate import Validator
from streammargin.errors import out_of_range
from streammargin.kernels.jit import compile_seconds
from streammargin.solvers.base import Blocks, Problem, Solver
from streammargin.solvers.figures import Figures
from streammargin.specs.blocks import Block
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")


class Run:
    """Visits one block a step, in phases: scaling, prologue, pass after pass with certificates, bias.

    In a pass a step visits as many blocks as the solver wants together. Before all these, where a training goes on and
    its files may be other ones, the phase of identity reads them once.

    Whatever decides what comes next lies in `state` and `progress` (and in the sums of `scaling` and `bias`); the clock
    is asked for nothing but `max_seconds`.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
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
    ) -> None:
        self.problem, self.solver, self.reader, self.column = problem, solver, reader, bias
        self.limits, self.costs, self.validator, self.history = limits, costs, validator, history
        self.should_stop, self.publish, self.scaling = should_stop, publish, scaling
        self.path = path
        self.watched = watched  # the rows as they are stored, and the held-out ones; of a training with a checkpoint
        self.doubted: list[int] = []  # those that must be read before the training goes on
        self.bias = Midway(problem.count) if midway else None
        self.ranges = Ranges(problem) if scaling is None else None  # until the first pass is over
        self.state = solver.start(problem)
        none = np.zeros(problem.count, bool)
        self.progress = Progress(none, none.copy(), Stopping(problem.count, limits.tol))
        self.active = self.progress.active
        self._phases = {
            IDENTITY: (self._all_blocks, self._recognise, self._end_identity),
            SCALING: (self._all_blocks, self._scale, self._end_scaling),
            PROLOGUE: (self._all_blocks, self._prologue, self._end_prologue),
            PASS: (self._begin_pass, self._learn, self._end_pass),
            CERTIFICATE: (self._begin_certificate, self._certify, self._end_certificate),
            BIAS: (self._all_blocks, self._find_bias, self._end_bias),
        }
        self.progress.go(SCALING if scaling is not None else self._after_scaling())
        self.started = time.perf_counter()
        self.longest_sweep = 0.0
        self._blocks: Iterator[list[tuple[int, int, Block]]] | None = None
        self._then = self._clock()
        self._compiled = 0.0

    def met(self) -> str | None:
        """Why to end before the next block: a limit that is met, or a signal.

        Looked at between blocks, so that a run under a limit is the beginning of the run without.
        """
        p = self.progress
        if p.phase == PASS and p.number:
            if p.number >= self.limits.passes and not p.order.size:
                return "passes"
            if self._out_of_time():
                return "seconds"
        return "signal" if self.should_stop is not None and self.should_stop() is not None else None

    def advance(self, reason: str | None) -> None:
        """The next block, or the end for this reason."""
        if reason is None:
            self.step()
        else:
            self.break_off(reason)

    def step(self) -> None:
        """Visit the next block, or blocks, and do what follows from that."""
        p = self.progress
        begin, visit, end = self._phases[p.phase]
        if not p.order.size:
            begin()
            self._then, self._compiled = self._clock(), compile_seconds()
        if self._blocks is None:
            self._blocks = self._reader.groups(p.order[p.position :], self.solver.together if p.phase == PASS else 1)
        group = next(self._blocks)
        visit([(start, block._replace(bias=self.column)) for start, _, block in group])
        p.position += len(group)
        p.rows += sum(stop - start for start, stop, _ in group)
        if self.publish:
            self._tell()
        if p.position == len(p.order):
            compiling = compile_seconds() - self._compiled  # the next sweep will not
            self.longest_sweep = max(self.longest_sweep, self.spent()[0] - compiling)
            self.stop_reading()
            end()

    def break_off(self, reason: str) -> None:
        """End here: with a last certificate, or at once and without one where a signal came."""
        p = self.progress
        self.stop_reading()
        if p.phase == IDENTITY:  # of these rows nothing is known yet
            self.progress = self._aside
            self.progress.valid_errors = None
            self._finish("signal")
        elif reason == "signal" and p.phase == BIAS:  # what was proven before stays
            p.reason = reason
            p.go(DONE)
        elif reason == "signal":
            self._finish(reason)
        else:
            p.ending = reason
            if p.order.size:
                self._end_pass()
            elif p.judged < p.number:
                p.go(CERTIFICATE)
            else:
                self._finish(reason)

    def continued(self, bounds: np.ndarray) -> None:
        """Called when state and progress were loaded: take up the read at work where it was, or an end that is none.

        bounds: of the blocks of the read at work; a smaller tolerance, with more memory for the state, may want smaller
        ones. A training that had ended goes on where the tolerance or the passes of this one reach further.
        Raises ValueError where the progress is none of this training.
        """
        p = self.progress
        rounds = self.solver.prologue_passes(self.problem)
        phases = {PASS, CERTIFICATE, DONE, *([SCALING] if self.scaling else []), *([BIAS] if self.bias else [])}
        phases |= {PROLOGUE} if p.round < rounds else set()
        p.check(self.problem.count, self.problem.trials, phases, len(bounds) - 1)
        self._cut(bounds)
        if p.figures is not None and p.stopping.tol != self.limits.tol:
            done = p.impossible | np.array([self._over(figures) for figures in p.figures])
            if not (p.order.size and done.all()):  # a read at work is for someone
                p.done = done
        p.stopping.tol = self.limits.tol
        self.active = p.active
        if p.phase == DONE and p.reason in ("tolerance", "separated", "passes"):
            if not self.active.size:
                p.reason = self._verdict()
            elif p.reason != "passes" or p.number < self.limits.passes:
                p.reason, p.ending, p.proven = None, None, False
                p.go(PASS)
        elif not (self.active.size or p.order.size or p.phase == BIAS):
            self._finish("tolerance")
        self._then, self._compiled = self._clock(), compile_seconds()

    def _cut(self, bounds: np.ndarray) -> None:
        """Cut the blocks where those of a saved read ended too, and tell its order in the pieces."""
        p, reader = self.progress, self._reader
        reader.cut(bounds)
        first = np.searchsorted(reader.bounds, bounds)
        pieces = [np.arange(first[block], first[block + 1]) for block in p.order.tolist()]
        p.position = sum(map(len, pieces[: p.position]))
        p.order = np.concatenate([np.empty(0, np.int64), *pieces])

    # time

    def _elapsed(self) -> float:
        return time.perf_counter() - self.started

    def _out_of_time(self) -> bool:
        limit = self.limits.max_seconds
        return limit is not None and self._elapsed() + self.limits.sweeps * self.longest_sweep >= limit

    def _clock(self) -> tuple[float, float, float, int]:
        counts = self._reader.counts
        return time.perf_counter(), counts.read_seconds, counts.wait_seconds, counts.bytes_read

    def spent(self) -> tuple[float, ...]:
        """Seconds, seconds reading, seconds waiting and bytes of the read at work."""
        before, now, then = self.progress.spent, self._clock(), self._then
        return (
            before[0] + now[0] - then[0], before[1] + now[1] - then[1],
            before[2] + now[2] - then[2], before[3] + now[3] - then[3],
        )  # fmt: skip

    def _tell(self) -> None:
        p = self.progress
        seconds, _, waited, size = self.spent()
        self.history.progress(
            {
                "event": "progress", "phase": p.phase, "pass": p.number, "block": p.position, "blocks": len(p.order),
                "rows": p.rows, "seconds": seconds, "bytes_read": size, "wait_seconds": waited,
                "estimate": p.estimate, "elapsed": self._elapsed(),
            }
        )  # fmt: skip

    # reading

    @property
    def bounds(self) -> np.ndarray:
        """Of the blocks of the read at work."""
        return self._reader.bounds

    @property
    def _reader(self) -> BlockReader:
        phase = self.progress.phase
        if phase == IDENTITY:
            if self.validator is not None and self.doubted[0]:
                return self.validator.reader
            phase = self._aside.phase
        return self.scaling.reader if self.scaling is not None and phase == SCALING else self.reader

    def _all_blocks(self) -> None:
        self.progress.order = np.arange(len(self._reader.bounds) - 1)

    def stop_reading(self) -> None:
        """Let go of the block and of the reader's thread."""
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
        self._counts = replace(self._reader.counts)

    def _recognise(self, blocks: Blocks) -> None:
        """Nothing: the source compares what it reads."""

    def _end_identity(self) -> None:
        self._reader.counts = self._counts  # as if it had not been
        self.watched[self.doubted[0]].settle()
        self.doubted = self.doubted[1:]
        if self.doubted:
            self._next_doubted()
        else:
            self.progress = self._aside
            self._then, self._compiled = self._clock(), compile_seconds()

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
        return PROLOGUE if self.progress.round < self.solver.prologue_passes(self.problem) else PASS

    def _prologue(self, blocks: Blocks) -> None:
        [(first, block)] = blocks
        self.solver.prologue_block(self.problem, self.state, self.progress.round, block, first)

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
        self.solver.begin_pass(self.problem, self.state, p.number)
        p.order = self.solver.order(self.problem, self.state, p.number, len(self.reader.bounds) - 1)

    def _learn(self, blocks: Blocks) -> None:
        if self.ranges is not None:
            for first, block in blocks:
                self.ranges.add(first, block)
        self.solver.run_blocks(self.problem, self.state, self.active, blocks)

    def _end_pass(self) -> None:
        p = self.progress
        report = self.solver.end_pass(self.problem, self.state, self.active)
        p.estimate = max([0.0, *report.estimate[self.active].tolist()])
        seconds, reading, waited, size = self.spent()
        self.history.publish(
            {
                "event": "pass_end", "pass": p.number, "rows": p.rows, "seconds": seconds, "read_seconds": reading,
                "compute_seconds": seconds - waited, "wait_seconds": waited, "bytes_read": size,
                "mistakes": report.mistakes if self.problem.counts else None, "rss_bytes": resident_bytes(),
                "estimate": p.estimate,
                "kept_rows": report.kept_rows, "reads": self.reader.counts.bytes_read / max(1, self.problem.size),
            }
        )  # fmt: skip
        if self.ranges is not None:
            remark, self.ranges = self.ranges.remark(), None
            if remark is not None:
                LOG.warning(Message(remark), extra={"code": "scale"})
        whole = p.position == len(p.order)
        if report.certificate is not None:
            if whole:
                self._judge(report.certificate, report.wrong, swept=False)
        elif p.ending is not None or report.still or p.stopping.due(report.estimate, self.active):
            if report.still and p.ending is None:
                p.ending = "passes"  # more of them would change nothing
            p.go(CERTIFICATE)
            return
        self._go_on()

    def _go_on(self) -> None:
        """After a pass that was certified, or needs no certificate."""
        p = self.progress
        if not self.active.size and self.path is not None and self.path.more:
            self._next_on_path(self.path)
        elif not self.active.size:
            self._finish("tolerance")
        elif p.ending is not None:
            self._finish(p.ending)
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
        self.progress = replace(fresh, number=now, judged=now, validated=now, round=p.round, estimate=p.estimate)
        self.active = self.progress.active
        self.progress.go(PASS)

    def _keep_on_path(self, path: Path) -> None:
        p = self.progress
        if p.figures is not None:
            if self.validator is not None and p.validated < p.judged:
                w = np.stack([f.w for f in p.figures])
                p.valid_errors, p.validated = self.validator.errors(self.answer(w)), p.judged
            path.keep(p.figures, p.wrong, p.valid_errors, p.number)

    # certificates

    def _begin_certificate(self) -> None:
        self.solver.begin_certificate(self.problem, self.state, self.active)
        self._all_blocks()

    def _certify(self, blocks: Blocks) -> None:
        [(first, block)] = blocks
        self.solver.certify_block(self.problem, self.state, block, first)

    def _end_certificate(self) -> None:
        figures, wrong = self.solver.end_certificate(self.problem, self.state)
        before = self.active
        self._judge(figures, wrong, swept=True)
        gaps = [f.margin_gap if f.gap is None else f.gap for f in figures]
        self.progress.stopping.learn(np.array([np.inf if g is None else g for g in gaps]), before)
        self._go_on()

    def _judge(self, figures: list[Figures], wrong: np.ndarray | None, swept: bool) -> None:
        p = self.progress
        p.figures, p.wrong, p.judged = figures, wrong, p.number
        for k in self.active:
            p.done[k] = self._over(figures[k])
            if not p.done[k] and self._hopeless(figures[k]):
                p.impossible[k] = p.done[k] = True
        self.active = p.active
        if self.validator is not None and self._worth_validating(swept):
            p.valid_errors = self.validator.errors(self.answer(np.stack([f.w for f in figures])))
            p.validated = p.number
        for trial in range(self.problem.trials):
            known = p.valid_errors is not None and p.validated == p.number
            error = float(p.valid_errors[trial]) if known and p.valid_errors is not None else None
            event = certificate_event(self.problem, trial, figures, wrong, error)
            self.history.publish({"event": "certificate", "pass": p.number, "C": self.costs[trial], **event})

    def _over(self, figures: Figures) -> bool:
        return self.solver.reached(self.problem, figures) or self.solver.satisfied(self.problem, figures)

    def _unproven(self) -> np.ndarray:
        """Which problems ended, if they did, because the solver is satisfied, with no proof within the tolerance."""
        assert self.progress.figures is not None
        solver, problem, known = self.solver, self.problem, self.progress.figures
        return np.array([solver.satisfied(problem, f) and not solver.reached(problem, f) for f in known])

    def _verdict(self) -> str:
        """The reason where nothing is left to do."""
        p = self.progress
        if p.impossible.any():
            assert p.figures is not None
            proven = any(self._proven(p.figures[k]) for k in np.flatnonzero(p.impossible))
            return "not_separable" if proven else "small_margin"
        return "separated" if self._unproven().any() else "tolerance"

    def _hopeless(self, figures: Figures) -> bool:
        """Whether no weights are known that separate the rows, and none has a margin worth going on for."""
        upper, lower = figures.margin_upper, figures.margin_lower
        if upper is None or (lower is not None and lower > 0.0):
            return False
        # until weights were tried only a proof says anything
        tried = lower is not None and lower > -np.inf
        return self._proven(figures) or (tried and upper < self.solver.smallest_margin(self.problem, self.state))

    def _proven(self, figures: Figures) -> bool:
        """Whether the bound on the margin is 0 to rounding: nothing separates the rows."""
        upper = figures.margin_upper
        return upper is not None and upper <= self.solver.rounding(self.problem, self.state)

    def _worth_validating(self, swept: bool) -> bool:
        # where every pass certifies itself, the held-out data would be read as often as the rows
        number = self.progress.number
        return swept or not self.active.size or number & (number - 1) == 0

    # the end

    def _finish(self, reason: str) -> None:
        p = self.progress
        p.proven = p.figures is not None and reason != "signal"
        p.reason = reason if reason == "signal" or self.active.size else self._verdict()
        w = self.weights()
        if not np.isfinite(w).all():
            raise out_of_range()
        if p.proven and self.validator is not None and p.validated < p.judged:
            p.valid_errors, p.validated = self.validator.errors(self.answer(w)), p.judged
        if self.path is not None and reason != "signal":
            self._keep_on_path(self.path)
        p.go(BIAS if self.bias is not None and reason != "signal" else DONE)

    def _find_bias(self, blocks: Blocks) -> None:
        [(first, block)] = blocks
        assert self.bias is not None
        rows = slice(first, first + block.rows())
        weights = self.problem.weights
        weights = weights[rows] if weights.size else weights
        self.bias.add_block(
            block, self.answer(self.weights()), self.problem.codes[rows], weights, self.problem.positive
        )

    def _end_bias(self) -> None:
        assert self.bias is not None
        p = self.progress
        p.midway = self.bias.bias()
        if self.validator is not None:
            shifted = np.column_stack([self.weights()[:, :-1], p.midway])
            p.valid_errors = self.validator.errors(LinearAnswer(shifted, 1.0))
        p.go(DONE)

    def weights(self) -> np.ndarray:
        """The weights (K, d+1) that were certified last, or the latest ones where nothing was proven."""
        p = self.progress
        if p.proven and p.figures is not None:
            known = [f.w for f in p.figures]
            return np.stack(known) if len(known) > 1 else known[0][np.newaxis]  # of many columns a copy counts
        return self.solver.weights(self.problem, self.state)

    def answer(self, w: np.ndarray) -> LinearAnswer:
        """The answer of weights w (K, d+1), with the constant column of this run."""
        return LinearAnswer(w, self.column)

    def outcome(self) -> Outcome:
        """How it ended."""
        p = self.progress
        assert p.reason is not None, "the training is not done"
        figures, wrong = (p.figures, p.wrong) if p.proven else (None, None)
        converged = p.done & ~p.impossible & ~self._unproven() if p.proven else np.zeros_like(p.done)
        errors = p.valid_errors if p.proven or p.midway is not None else None
        asked = None
        if self.problem.objective.infeasible:
            asked = self.problem.tol * self.solver.mean_norm(self.problem, self.state)
        zeros = self.solver.zeros(self.problem, self.state)
        found = Outcome(p.reason, converged, p.number, self.weights(), figures, wrong, errors, p.midway, asked, zeros)
        return found if self.path is None else self.path.chosen(found)


def run(training: Run, between: Callable[[Run, str | None], None] | None = None) -> Outcome:
    """Block after block until the certificate, the passes, the clock or a signal says stop.

    between: called before every block, with the reason where the run is about to be broken off.

    Unless a signal ended it, the weights of the outcome are the ones whose figures it carries. Held-out errors are
    those with the bias midway, where one was asked for.
    """
    try:
        with np.errstate(all="ignore"):  # what leaves the range of numbers is found in the figures and the weights
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
