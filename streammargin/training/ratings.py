"""The completion of a matrix: entries become a problem, a solver is chosen, and its answer a model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from streammargin.driver.choose import choose
from streammargin.driver.events import History
from streammargin.driver.labels import NONE, LabelReader, SlicedLabels
from streammargin.driver.outcome import Outcome
from streammargin.driver.plan import Plan, spendable
from streammargin.driver.setup import Survey, Target, check_caps, check_numbers, make_numbers
from streammargin.driver.validate import Errors, Validator
from streammargin.errors import UsageError
from streammargin.losses.ratings import RATINGS as WORDS
from streammargin.losses.ratings import AbsoluteRatingError, RatingLoss
from streammargin.model.ratings import LEVELS, NAMES, RatingsModel, known_loss
from streammargin.options.table import Options
from streammargin.points.factors import Factors
from streammargin.result import TrainResult
from streammargin.rows.labels import RowLabels
from streammargin.sizes import parse_size
from streammargin.solvers.auto import candidates, reason
from streammargin.solvers.base import Method
from streammargin.solvers.outputs import Outputs
from streammargin.solvers.problem import Problem
from streammargin.solvers.registry import make_solver
from streammargin.sources.base import Source
from streammargin.sources.watched import WatchedSource
from streammargin.tables.ratings.entries import Entries
from streammargin.tables.ratings.sorted import Ratings, held_out, rated
from streammargin.training.fitting import plan_of
from streammargin.training.identity import _digest
from streammargin.training.job import Job
from streammargin.training.prepare import watch
from streammargin.training.rows import Given
from streammargin.workers import Workers

PENALTY = "trace"
ALLOWED = (
    "solver", "loss", "C", "tol", "passes", "max_seconds", "memory", "threads", "seed", "checkpoint",
    "checkpoint_seconds", "valid", "columns", "y", "spool",
)  # fmt: skip


def options_of(given: Mapping[str, object]) -> Options:
    """Checked options of a completion. Raises UsageError."""
    loss = WORDS.of(given.get("loss") or AbsoluteRatingError.name)
    options = Options.of({**given, "loss": loss, "bias": 0.0})
    for name, value in vars(options).items():
        if name not in (*ALLOWED, "bias") and value != getattr(DEFAULTS, name):
            raise UsageError(f"`{name}` is not for ratings; leave it out")
    if len(options.costs or ()) > 1:
        raise UsageError("several values of `C` are a path here; give `C=path:K`, as `C=path:10,low=0.1,high=10`")
    if options.hard:
        raise UsageError("the completion of a matrix needs a finite C; give one, as `C=1`")
    return options


DEFAULTS = Options()


def from_ratings(stack: ExitStack, data: object, options: Options) -> tuple[Ratings, Options]:
    """Read the entries; held-out ones as well."""
    budget = parse_size(options.memory)
    y = options.y
    ratings = rated(stack, Entries(data, options.columns, y, budget // 8), budget, options.spool)
    if options.valid is not None:
        entries = Entries(options.valid, options.columns, y, budget // 8, like=ratings.names)
        ratings = replace(ratings, held_out=held_out(entries, ratings, stack))
    return ratings, replace(options, spool=None)


def prepare_ratings(stack: ExitStack, ratings: object, options: Options, least_tol: float, remote: bool) -> Job:
    """Plan the reading, and choose a solver; the stack closes what was opened."""
    assert isinstance(ratings, Ratings)
    if remote:
        raise UsageError("a cluster completes no matrix; train on one machine")
    budget = parse_size(options.memory)
    options = replace(options, loss=known_loss(options.loss, ratings.levels))
    watched: list[WatchedSource] = []
    source = watch(ratings.source, options, watched)
    labels: LabelReader = SlicedLabels(source, NONE, make_numbers(source), reading=source.column_bytes()).settled()
    problem = problem_of(source, ratings, options, budget, least_tol)
    own = 400 * sum(ratings.sides)  # names, and maps of them
    validator = None
    if ratings.held_out is not None:
        validator = RatingsValidator(watch(ratings.held_out, options, watched), problem, ratings.levels, budget // 8)
        own += validator.memory_bytes
    problem = replace(problem, budget=max(0, problem.budget - own), workers=Workers(options.workers))

    def fit(method: Method, asked: Problem) -> tuple[Problem, Plan]:
        return plan_of(source, method, asked, labels, budget, own)

    words = candidates(problem) if options.auto else [options.solver]
    method, (problem, plan), _ = choose([make_solver(word) for word in words], lambda method: problem, fit)
    if problem.resident:
        labels = labels.all()
    why = reason(problem, str(method)) if options.auto else None
    costs = options.costs or [1.0]
    target = Target(np.empty(0), np.zeros(1, np.int64))
    mass = np.full((2, 1, 1), float(source.rows))
    return RatingsJob(
        options, costs, method, source, target, labels, Survey(mass, np.empty(0), False), problem, source, {},
        validator, plan, why, False, watched, None, None, None, ratings,
    )  # fmt: skip


def problem_of(source: Source, ratings: Ratings, options: Options, budget: int, least_tol: float) -> Problem:
    """The completion as a problem; its rows are entries."""
    costs = options.costs or [1.0]
    check_caps(costs, np.ones((1, 1)), np.empty(0), source.rows)
    largest = max((float(np.abs(part).max()) for part in source.labels()), default=0.0)
    check_numbers(np.array([largest]), source.name)
    loss = options.loss
    assert isinstance(loss, RatingLoss)
    return Problem(
        rows=source.rows, features=2, dtype=source.dtype, loss=loss.terms(),
        outputs=Outputs(
            np.zeros(1, np.int64), np.full((1, 1), costs[0]), np.array(costs), np.full((1, 1), float(source.rows))
        ),
        trials=1, tol=options.eps, absolute=options.eps if options.absolute else None, seed=options.seed,
        present=source.rows, penalty_word=PENALTY, path=options.path is not None, numeric=True,
        budget=spendable(budget), entries=source.nnz, largest_target=largest, sides=ratings.sides,
        least_tol=least_tol,
    )  # fmt: skip


class RatingsValidator(Validator):
    """The root of the mean squared error of predicted ratings."""

    def __init__(self, source: Source, problem: Problem, levels: np.ndarray, budget: int) -> None:
        labels = SlicedLabels(source, NONE, make_numbers(source), reading=source.column_bytes()).settled()
        super().__init__(source, 1, labels, budget)
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
        costs = self.costs
        return {
            **{name: value for name, value in self.options.plain().items() if name in ALLOWED and name != "spool"},
            "solver": str(self.method), "loss": str(self.options.loss), "penalty": PENALTY,
            "C": costs[0] if self.options.path is None else str(self.options.path),
            "columns": list(self.options.columns or ()), "y": self.options.y,
        }  # fmt: skip

    def run_start(self) -> dict[str, object]:
        event = super().run_start()
        event["data"] = {**event["data"], "sides": list(self.ratings.sides)}  # type: ignore[dict-item]  # a dict
        return event

    def identity(self) -> dict[str, object]:
        names = [
            np.frombuffer("\0".join(each).encode(), np.uint8) for each in (self.ratings.rows, self.ratings.columns)
        ]
        return {**super().identity(), "names of rows and columns": _digest(*names)}

    def result(self, outcome: Outcome, took: dict[str, float], history: History) -> TrainResult:
        problem = self.problem if outcome.C is None else self.problem.at(outcome.C / self.costs[0])
        C = self.costs[0] if outcome.C is None else outcome.C
        converged = bool(outcome.converged.all())
        certificate = replace(self._certificate(problem, outcome, 0), converged=converged)
        answer = outcome.best_point(problem)
        assert isinstance(answer, Factors)
        header = {
            **self.params(), "C": C, "rows": problem.rows, "sides": list(problem.sides), "rank": answer.rank,
            "reason": outcome.reason, "converged": converged, "passes_done": outcome.passes, "seconds": took["seconds"],
            "certificate": certificate.to_dict(), LEVELS: self.ratings.levels.tolist(),
            NAMES: list(self.ratings.names),
        }  # fmt: skip
        model = RatingsModel(answer, header, self.ratings.rows, self.ratings.columns)
        more = {"trials": outcome.path, "rank": answer.rank}
        return self.ended(model, certificate, replace(outcome, ranges=None), took, history, more)


def files_of(ratings: object) -> list[str]:
    """The files that were read."""
    assert isinstance(ratings, Ratings)
    return list(ratings.paths)


GIVEN = Given(from_ratings, prepare_ratings, files_of)
