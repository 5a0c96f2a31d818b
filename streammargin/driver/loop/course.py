"""A run's state and what it knows of its weights, and the decisions that follow: judge figures, choose a phase, end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from streammargin.driver.learn.ranges import Ranges, Spread
from streammargin.driver.learn.steps import Step
from streammargin.driver.learn.validate import Calibrating, Counted, Errors, Midway, Predicted, Predictions, Validator
from streammargin.driver.loop.holders import Holders
from streammargin.driver.status import progress as phases
from streammargin.driver.status.clock import Clock, Limits
from streammargin.driver.status.events import History
from streammargin.driver.status.outcome import Outcome, certificate_event, hopeless, is_hidden, no_margin
from streammargin.driver.status.progress import Progress
from streammargin.driver.status.stopping import EarlyStop, Gain, Stopping
from streammargin.errors import out_of_range
from streammargin.points.base import Point, Start
from streammargin.reading.labels import NO_ROWS
from streammargin.reading.prefetch import BlockReader, ReadCounts
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Method, Solver, Stage
from streammargin.solvers.linear import first_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.kept import BestKept
from streammargin.solvers.roles import new
from streammargin.solvers.visits import Visit
from streammargin.sources.views import WatchedSource
from streammargin.wording import warn


class CourseAnswer(NamedTuple):
    """It follows from where the run stands, and changes nothing. solver, state: of the current stage."""

    problem: Problem
    solver: Solver
    state: Any
    progress: Progress
    early: EarlyStop | None

    @property
    def best(self) -> BestKept | None:
        """The best passes, with early stopping, once a pass has an error."""
        return self.early.kept if self.early is not None and self.early.keeps else None

    # which weights are good enough

    def over(self, k: int, figures: Figures) -> bool:
        """Whether group k needs no more passes."""
        return self._enough(k, figures) or (self.early is not None and self.early.over(k))

    def _enough(self, k: int, figures: Figures) -> bool:
        return self.problem.reached(k, figures) or self._satisfied(k, figures)

    def _satisfied(self, k: int, figures: Figures) -> bool:
        return self.solver.satisfied(self.problem, self.state, k, figures)

    def _unproven(self) -> np.ndarray:
        """Groups (groups,) bool with which the solver is satisfied though no gap within the tolerance is proven."""
        assert self.progress.figures is not None
        known = enumerate(self.progress.figures)
        return np.array([self._satisfied(k, f) and not self.problem.reached(k, f) for k, f in known])

    def verdict(self) -> str:
        """The reason of the end if all groups are done."""
        p = self.progress
        if p.impossible.any():
            return "not_separable" if any(map(no_margin, self._impossible())) else "small_margin"
        if self.early is not None and self.early.stopped.any():
            return "early_stop"
        return "separated" if self._unproven().any() else "tolerance"

    def _impossible(self) -> list[Figures]:
        """The figures of groups without a separator."""
        p = self.progress
        return [one for one, impossible in zip(p.figures or [], p.impossible, strict=True) if impossible]

    # the weights

    def point(self, proven: bool) -> Point:
        """The weights certified last (proven), or the latest ones."""
        return self.solver.point(self.problem, self.state, self.problem.column, proven)

    def found(self) -> Point:
        """The answer: the weights of the best pass, if one is kept."""
        if self.best is not None:
            return self.solver.point(self.problem, self.state, self.problem.column, True, self.best)
        return self.point(self.progress.proven)

    # what is proven

    def figures_kept(self, best: BestKept) -> tuple[list[Figures], np.ndarray | None]:
        """Exact figures of the best passes, and how many rows have their largest score for a wrong class."""
        visit = self.solver.last_read(self.problem, self.state)
        return visit.end(self.problem, best, *visit.arguments), best.wrong.copy()

    def _with_midway(self, figures: list[Figures], midway: np.ndarray) -> tuple[list[Figures], np.ndarray | None]:
        """Figures of the weights, and wrong rows, with mistakes counted with the bias.

        A line with a bias separates its rows, and so makes no mistakes. If each does, no row is wrong.
        """
        found = [replace(one, mistakes=0) if b else one for one, b in zip(figures, midway.tolist(), strict=True)]
        if self.progress.recount is not None:
            return found, self.progress.recount
        return found, np.zeros(self.problem.trials, np.int64) if midway.all() else self.progress.wrong

    def outcome(self) -> Outcome:
        """How the run ended."""
        p = self.progress
        assert p.reason is not None, "the training is not done"
        figures, wrong = (p.figures, p.wrong) if p.proven else (None, None)
        converged = p.done & ~p.impossible & ~self._unproven() if p.proven else np.zeros_like(p.done)
        if figures is not None and p.midway is not None:
            figures, wrong = self._with_midway(figures, p.midway)
        errors, passes = p.valid_errors if p.proven or p.midway is not None else None, None
        reason = p.reason
        if self.best is not None:
            if p.proven:
                figures, wrong = self.figures_kept(self.best)
                converged = ~p.impossible & [self.problem.reached(k, one) for k, one in enumerate(figures)]
                reason = self._reason_kept(reason, figures)
            errors, passes = self.best.errors.copy(), self.best.passes.copy()
        asked, of = None, (self.solver, self.problem, self.state)
        if self.problem.objective.infeasible:
            asked = self.problem.tol * self.solver.margin_sizes(self.problem, self.state).mean
        hidden = reason == "small_margin" and any(is_hidden(*of, one) for one in self._impossible())
        found = self.found()
        return Outcome(
            reason, converged, p.number, found, figures, wrong, errors, p.midway, asked, found.zeros,
            predicted=p.predicted, ranges=p.ranges, kept=passes, hidden=hidden,
        )  # fmt: skip

    def _reason_kept(self, reason: str, figures: list[Figures]) -> str:
        """The reason of the end: `early_stop` if later weights reached what the best passes' figures do not."""
        if reason not in ("tolerance", "separated") or all(self._enough(k, one) for k, one in enumerate(figures)):
            return reason
        return "early_stop"

    def in_doubt(self) -> Outcome:
        """How the run ended if rows may have changed: earlier figures do not count."""
        p = self.progress
        assert p.reason is not None, "the training is not done"
        return Outcome(p.reason, np.zeros_like(p.done), p.number, self.found(), None, None, None)


@dataclass
class Shared:
    """Shared by all runs of a training.

    `labels`   those of all rows, or none if each block's are read with it (`Method.all_labels`).
    `holders`  the holders of the rows that a reader reads, if they are in several places.
    `watched`  the training and held-out sources as stored, if there are checkpoints. They detect altered files.
    `steps`    steps of the rows, by the phases in which they are learned.
    `start`    what to begin from, for rows as stored. None: 0.
    `spread`   whether the first pass measures the spread of the columns.
    """

    labels: RowLabels
    reader: BlockReader
    limits: Limits
    clock: Clock
    history: History
    should_stop: Callable[[], str | None] | None = None
    validator: Validator | None = None
    steps: Mapping[str, Step] = field(default_factory=dict)
    midway: bool = False
    predictions: Predictions | None = None
    watched: Sequence[WatchedSource] = ()
    start: Start | None = None
    holders: Mapping[BlockReader, Holders] = field(default_factory=dict)
    spread: bool = False
    calibrating: Calibrating | None = None


class Reading(NamedTuple):
    """The reader of the rows, visits with the states that they add to, and how many blocks one that is alone gets."""

    reader: BlockReader
    visits: Sequence[tuple[Visit, Any]]
    blocks: int = 1


class Course(Shared):
    """A run, with what all share. The next step depends on `states` and `progress` alone: a checkpoint saves them.

    states: by name, that of the solver ("state") and of its method ("watch"), and sums of the driver's own reads.
    The clock decides nothing but `max_seconds`. costs: the problem's values of C.
    Without states and progress the run is at its beginning.
    """

    def __init__(
        self, shared: Shared, problem: Problem, costs: Sequence[float], method: Method,
        states: dict[str, Any] | None = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        super().__init__(**vars(shared))
        self.shared: Shared = shared
        self.problem: Problem = problem
        self.costs: Sequence[float] = costs
        self.method: Method = method
        self.stages: dict[str, Stage] = method.stages()
        self.gain: Gain = Gain()
        self.reading: Reading | None = None  # of the current read, once it is needed
        self.doubted: list[int] = []  # indices into `watched`: to be read and compared before the training goes on
        self.aside: Progress | None = None  # the saved progress meanwhile
        self.counts_aside: ReadCounts = ReadCounts()
        self.progress: Progress = self.blank() if progress is None else progress
        self.states: dict[str, Any] = self._own_states() if states is None else states
        self.early: EarlyStop | None = None
        if self.limits.early_stop is not None:
            self.states["early"] = new(BestKept, problem, labels=NO_ROWS)
            self.early = EarlyStop(problem, self.limits.early_stop, self.states["early"])
        if progress is None:
            self.learn_next(None)
        self.active: np.ndarray = self.progress.active

    def _own_states(self) -> dict[str, Any]:
        """The states of a run at its beginning, by name."""
        made: dict[str, Any] = {"state": self.solver.start(self.problem, self.labels)}
        wanted = {
            "watch": self.method.watch, **{name: step.kind_of_sums for name, step in self.steps.items()},
            "held out": self.validator and Errors, "bias": self.midway and Midway,
            "calibration": self.calibrating and Counted, "predictions": self.predictions and Predicted,
        }  # fmt: skip
        wanted["ranges"] = None if self.steps else Ranges  # in the first pass only
        wanted["spread"] = Spread if self.spread else None
        labels = {"labels": NO_ROWS}
        return made | {
            name: new(cls, self.problem_of(name), **(labels if name != "watch" else {}))
            for name, cls in wanted.items()
            if cls
        }

    def tell_ranges(self) -> None:
        """Warn of the ranges of the columns, once they are measured."""
        if (ranges := self.states.pop("ranges", None)) is not None:
            self.progress.ranges = ranges.remark(self.problem.kernel is not None, self.reader.source)
            if self.progress.ranges is not None:
                warn(self.progress.ranges, "scale")

    def problem_of(self, name: str) -> Problem:
        """The problem that the layout of a state follows from, by the name of the state."""
        step = self.steps.get(name)
        return self.problem if step is None else step.of(self.problem)

    @property
    def state(self) -> Any:
        """The solver's state."""
        return self.states["state"]

    @state.setter
    def state(self, state: Any) -> None:
        self.states["state"] = state

    @property
    def watch(self) -> Any:
        """The state of the watch, which decides between the stages of the method."""
        return self.states.get("watch")

    def errors(self) -> np.ndarray:
        """The held-out errors (trials,) that were read last."""
        assert self.validator is not None
        return self.validator.errors(self.states["held out"])

    @property
    def solver(self) -> Solver:
        """The solver of the current stage."""
        return self.stages[self.progress.stage].solver

    @property
    def answer(self) -> CourseAnswer:
        """The answer so far."""
        return CourseAnswer(self.problem, self.solver, self.state, self.progress, self.early)

    def outcome(self) -> Outcome:
        """How the run ended."""
        if self.doubted:
            return self.answer.in_doubt()
        spread, counted = self.states.get("spread"), self.states.get("calibration")
        known = counted is not None and self.progress.proven and counted.counts.any()  # else of earlier weights
        return replace(
            self.answer.outcome(), measured=None if spread is None else spread.measured(),
            counted=(counted.scale, counted.counts) if counted is not None and known else None,
        )  # fmt: skip

    def blank(self) -> Progress:
        """The progress of a run that has not begun."""
        none = np.zeros(self.problem.groups, bool)
        stopping = Stopping(self.problem.groups, self.limits.tol, absolute=self.problem.absolute is not None)
        return Progress(none, none.copy(), stopping, stage=self.method.route(self.problem)[0])

    def begin(self) -> None:
        """Begin from given weights, if there are any; called once all steps of the rows are known."""
        if (start := self.start) is not None:
            column = self.problem.column
            for step in self.steps.values():
                start = step.start(start, column)
            if not self.steps:
                start = start.scaled(None, None, column)
            if not start.finite():
                raise out_of_range()
            self.solver.begin_at(self.problem, self.state, first_weights(self.problem, start))
        self.progress.go(self.after_steps())

    def learn_next(self, last: str | None) -> None:
        """Learn the step after this one, or begin if it was the last; None: the first one."""
        names = [None, *self.steps]
        following = self.steps if last is None else names[names.index(last) + 1 :]
        if name := next(iter(following), None):
            self.progress.go(name)
        else:
            self.begin()

    def after_steps(self) -> str:
        """The next phase after the steps, or after a prologue read."""
        return phases.PROLOGUE if self.progress.round < self.method.prologue_passes(self.problem) else phases.PASS

    # certificates

    def judge(self, figures: list[Figures], wrong: np.ndarray | None, swept: bool) -> None:
        """Take exact figures and choose the next phase; swept: the figures took an extra read."""
        self.note(figures, wrong)
        if self.early is None and self._worth_validating(swept):
            self.progress.go(phases.HELD_OUT)
        else:
            self.tell_certificates()
            self.go_on()

    def note(self, figures: list[Figures], wrong: np.ndarray | None) -> None:
        """Take exact figures, and mark the groups that they end as done."""
        p = self.progress
        p.figures, p.wrong, p.judged = figures, wrong, p.number
        for k in self.active:
            p.done[k] = self.answer.over(k, figures[k])
            if not p.done[k] and hopeless(self.solver, self.problem, self.state, figures[k]):
                p.impossible[k] = p.done[k] = True
        self.active = p.active
        self.aim()

    def take_tolerance(self, under_way: bool = False) -> None:
        """Mark the groups as done that are by the tolerance asked for, if a resumed training had another one.

        under_way: within a read, which goes on, and so needs an active group. A group that
        was done takes part from the next pass or certificate on. In this one it would miss the rows read before.
        """
        p, asked = self.progress, (self.limits.tol, self.problem.absolute is not None)
        if p.figures is not None and (p.stopping.tol, p.stopping.absolute) != asked:
            done = p.impossible | np.array([self.answer.over(k, figures) for k, figures in enumerate(p.figures)])
            if under_way and p.phase in (phases.PASS, phases.CERTIFICATE) and (p.done & ~done).any():
                return
            if not (under_way and done.all()):
                p.done = done
            self.active = p.active
        p.stopping.tol, p.stopping.absolute = asked

    def aim(self) -> None:
        """Adapt the relative tolerance to the last figures, if an absolute one was asked for."""
        if self.progress.figures is not None:
            self.problem = self.problem.aiming(self.progress.figures, self.active)
        self.progress.stopping.aim = self.problem.tol

    def _worth_validating(self, swept: bool) -> bool:
        # if every pass yields figures, held-out data are read after passes 1, 2, 4, 8, ... only
        number = self.progress.number
        if self.validator is None or self.validator.late:
            return False
        return swept or not (self.active.size or self.unsettled) or number & (number - 1) == 0

    @property
    def unsettled(self) -> bool:
        """Whether what is proven needs a last read of the rows."""
        return self.progress.figures is not None and self.solver.unsettled(self.problem, self.state)

    def tell_certificates(self) -> None:
        """Publish the events of the last figures, once."""
        p = self.progress
        if p.told == p.judged or p.figures is None:
            return
        p.told = p.judged
        for trial in range(self.problem.trials):
            known = p.valid_errors is not None and p.validated == p.number
            error = float(p.valid_errors[trial]) if known and p.valid_errors is not None else None
            self.tell_certificate(p.number, trial, p.figures, p.wrong, error)

    def tell_certificate(
        self, number: int, trial: int, figures: list[Figures], wrong: np.ndarray | None, error: float | None
    ) -> None:
        """Publish the figures at a value of C, of the weights of pass `number`, with their held-out error."""
        event = certificate_event(self.problem, trial, figures, wrong, error)
        work = {"multiplications": round(self.state.multiplications)}
        fold = None if self.problem.tried is None else self.problem.tried.fold(trial)
        of = {"C": self.costs[trial], "fold": fold, "trainings": self.problem.trials}
        self.history.publish({"event": "certificate", "pass": number, **of, **event, **work})

    # what comes next

    def go_on(self) -> None:
        """Choose the next phase after a pass that was certified, or needs no certificate."""
        p = self.progress
        self.take_tolerance()
        if not self.active.size:
            self.finish("tolerance")
        elif p.ending is not None:
            self.finish(p.ending)
        else:
            p.go(phases.PASS)

    def finish(self, reason: str) -> None:
        """End the passes. The answer is the best pass, else the weights certified last, after a signal the latest."""
        p = self.progress
        if reason != "signal" and p.phase != phases.CERTIFICATE and self.unsettled:
            p.told = 0  # its figures are those of the answer
            p.go(phases.CERTIFICATE)
            return
        p.proven = p.figures is not None and reason != "signal" and not self.unsettled
        if reason != "signal" and not self.active.size:
            reason = self.answer.verdict()
        if not self.answer.found().finite():
            raise out_of_range()
        if self.early is not None and self.early.keeps:
            if p.proven and not self.early.kept.certified:
                p.go(phases.LAST_READ)
                return
        elif p.proven and self.validator is not None and p.validated < p.judged:
            p.go(phases.HELD_OUT)
            return
        p.reason = reason
        if self.midway and reason != "signal":
            p.go(phases.BIAS)
        else:
            self.end(reason)

    def end(self, reason: str) -> None:
        """Fix the weights; at most reads for probabilities and of the predicted classes follow."""
        p = self.progress
        p.reason = reason
        known = self.calibrating is not None and p.proven and reason != "signal"
        if known and self.calibrating is not None and self.calibrating.wanted(self.outcome()):
            p.go(phases.CALIBRATION)
        else:
            self.predict()

    def predict(self) -> None:
        """Read the predicted classes if they are not known, and end."""
        p, reason = self.progress, self.progress.reason
        p.go(phases.DONE)
        if self.predictions is None or not p.proven or reason == "signal":
            return
        outcome = self.outcome()
        if not self.predictions.wanted(outcome):
            return
        p.predicted = self.predictions.known(outcome, self.states.get("held out"))
        if p.predicted is None and (self.problem.resident or reason != "seconds"):
            p.go(phases.PREDICTIONS)
