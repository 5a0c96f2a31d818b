"""The completion of a matrix: entries become a problem, a solver is chosen, and its answer a model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from streammargin.driver.learn.validate import Errors, Validator
from streammargin.driver.status.events import History
from streammargin.driver.status.outcome import Outcome
from streammargin.errors import UsageError
from streammargin.losses.ratings import RATINGS as WORDS
from streammargin.losses.ratings import AbsoluteRatingError
from streammargin.model.base import Model
from streammargin.model.ratings import LEVELS, TABLE_NAMES, RatingsModel, known_loss
from streammargin.options.costs import Costs, Path
from streammargin.options.table import Options
from streammargin.points.base import Point
from streammargin.points.factors import Factors
from streammargin.reading.labels import NO_NUMBERS, SlicedLabels
from streammargin.reading.plan import Plan
from streammargin.result import TrainResult
from streammargin.rows.labels import RowLabels
from streammargin.sizes import parse_size
from streammargin.solvers.auto import candidates, reason
from streammargin.solvers.base import Method
from streammargin.solvers.problem import Problem
from streammargin.solvers.registry import make_solver
from streammargin.sources.base import Source
from streammargin.sources.names import packed
from streammargin.sources.views import WatchedSource
from streammargin.tables.ratings.entries import Entries
from streammargin.tables.ratings.sorted import Ratings, held_out, rated
from streammargin.training.fitting import choose, plan_of
from streammargin.training.job import Job, digest_of_arrays
from streammargin.training.prepare import watch
from streammargin.training.problem import LabelsRead, make_problem
from streammargin.training.rows import DataKind
from streammargin.training.setup import Survey, Target, check_numbers, largest_targets, make_numbers
from streammargin.training.task import Task
from streammargin.workers import Workers

PENALTY = "trace"
PARAMS = ("solver", "loss", "C", "tol", "passes", "max_seconds", "memory", "seed", "columns")


def options_of(given: Mapping[str, object]) -> Options:
    """Checked options of a completion. Raises UsageError."""
    loss = WORDS.of(AbsoluteRatingError.name if given.get("loss") in (None, Options.loss) else given["loss"])
    C, alone = given.get("C"), given.get("valid") is None
    costs = [] if C is None else Costs().check("`C`", C)
    if alone if isinstance(costs, Path) else len(costs) > 1:
        raise UsageError(
            "held-out ratings choose among the values of `C`, which are a path here; give `C=path:10,low=0.1,high=10` "
            "and `valid=DATA`"
        )
    options = Options.of({**given, "loss": loss, "bias": 0.0})
    if options.hard:
        raise UsageError("the completion of a matrix needs a finite C; give one, as `C=1`")
    return options


def from_ratings(stack: ExitStack, data: object, options: Options) -> tuple[Ratings, Options]:
    """Read the entries; held-out ones as well."""
    if options.folds is not None:
        raise UsageError("a share in `valid` leaves out rows, and ratings are entries; give `valid=DATA`")
    budget = parse_size(options.memory)
    y = options.y
    ratings = rated(stack, Entries(data, options.columns, y, budget // 8), budget, options.spool)
    if options.valid is not None:
        entries = Entries(options.valid, options.columns, y, budget // 8, like=ratings.entries.names)
        ratings.held_out = held_out(entries, ratings)
    return ratings, replace(options, spool=None)


def prepare_ratings(stack: ExitStack, ratings: object, options: Options, least_tol: float, remote: bool) -> Job:
    """Plan the reading, and choose a solver; the stack closes what was opened."""
    assert isinstance(ratings, Ratings)
    budget = parse_size(options.memory)
    loss = known_loss(options.loss, ratings.levels)
    options = replace(options, loss=loss)
    watched: list[WatchedSource] = []
    source = watch(ratings.source, options, watched)
    read = read_ratings(source)
    task, labels = Task(loss, options.costs or [1.0]), read.labels.settled()
    own = 400 * sum(ratings.sides)  # names, and maps of them
    problem = replace(
        make_problem(source, task, options, read, budget), penalty_word=PENALTY, sides=ratings.sides,
        least_tol=least_tol, workers=Workers(options.workers),
    )  # fmt: skip
    validator = None
    if ratings.held_out is not None:
        validator = RatingsValidator(watch(ratings.held_out, options, watched), problem, ratings.levels, budget // 8)
        own += validator.memory_bytes
    problem = replace(problem, budget=max(0, problem.budget - own))

    def fit(method: Method, asked: Problem) -> tuple[Problem, Plan]:
        return plan_of(source, method, asked, labels, budget, own)

    words = candidates(problem) if options.auto else [options.solver]
    method, (problem, plan), _ = choose([make_solver(word) for word in words], lambda method: problem, fit)
    if problem.resident:
        labels = labels.all()
    why = reason(problem, str(method)) if options.auto else None
    return RatingsJob(
        options, task.costs, method, source, read.target, labels, read.known, problem, source, {},
        validator, plan, why, False, watched, None, None, False, None, ratings,
    )  # fmt: skip


def read_ratings(source: Source) -> LabelsRead:
    """Facts read from the ratings, which are labels."""
    labels = SlicedLabels(source, NO_NUMBERS, make_numbers(source), reading=source.column_bytes())
    largest = largest_targets(labels)
    check_numbers(largest, source.name)
    known = Survey(np.full((2, 1, 1), float(source.rows)), np.empty(0), False)
    return LabelsRead(Target(np.empty(0), np.zeros(1, np.int64)), labels, known, float(largest[0]))


class RatingsValidator(Validator):
    """The root of the mean squared error of predicted ratings."""

    def __init__(self, source: Source, problem: Problem, levels: np.ndarray, budget: int) -> None:
        super().__init__(source, 1, read_ratings(source).labels.settled(), budget)
        self.loss, self.top = problem.loss, float(levels[-1]) if levels.size else -np.inf

    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        apart = self.loss.rated(scores[:, 0], self.top) - labels.targets
        sums.amount[0] += float(apart @ apart)

    def errors(self, sums: Errors) -> np.ndarray:
        return np.sqrt(sums.amount / self.source.rows)


@dataclass(frozen=True)
class RatingsJob(Job):
    """A prepared completion."""

    ratings: Ratings

    def params(self) -> dict[str, object]:
        known = {name: value for name, value in super().params().items() if name in PARAMS}
        return {**known, "penalty": PENALTY, "columns": self._columns, "y": self.options.y}

    @property
    def _columns(self) -> list[str]:
        """The columns of a table that say where each rating is; [] of a matrix."""
        return list(self.options.columns or self.ratings.entries.names[:2])

    def run_start(self, typed: Options | None = None) -> dict[str, object]:
        event = super().run_start(replace(typed or self.options, columns=self._columns or None))
        event["data"] = {**event["data"], "sides": list(self.ratings.sides)}  # type: ignore[dict-item]  # a dict
        return event

    def identity(self) -> dict[str, object]:
        names = [packed(np.array(each.listed, object)) for each in self.ratings.names]
        return {**super().identity(), "names of rows and columns": digest_of_arrays(*names)}

    def result(self, outcome: Outcome, took: dict[str, float], history: History) -> TrainResult:
        return super().result(replace(outcome, ranges=None), took, history)

    def _sizes(self, answer: Point) -> dict[str, object]:
        return {"sides": list(self.problem.sides), "rank": answer.nonzeros()}

    def _model(self, problem: Problem, outcome: Outcome, answer: Point, header: dict[str, object]) -> Model:
        assert isinstance(answer, Factors)
        header |= {LEVELS: self.ratings.levels.tolist(), TABLE_NAMES: list(self.ratings.entries.names)}
        return RatingsModel(answer, header, *(names.listed for names in self.ratings.names))

    def _more(self, problem: Problem, outcome: Outcome, answer: Point) -> dict[str, object]:
        return {"rank": answer.nonzeros()}


def files_of(ratings: object) -> list[str]:
    """The files that were read."""
    assert isinstance(ratings, Ratings)
    return list(ratings.entries.paths)


GIVEN = DataKind(from_ratings, prepare_ratings, files_of)
