"""Learn from a stream of batches. Each row is seen once, so nothing can be proven about all rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from streammargin.driver.status.events import SCHEMA, History, resident_bytes
from streammargin.errors import DataError, UsageError
from streammargin.losses import make_loss, terms
from streammargin.matching import Codes, plain
from streammargin.model.linear import model_of
from streammargin.options.table import FREE_BIAS, Options, Where
from streammargin.penalties import make_penalty
from streammargin.penalties.base import PenalisedColumns
from streammargin.points.base import Point
from streammargin.reading.labels import NO_ROWS, check_weights
from streammargin.reading.prefetch import Stopwatch
from streammargin.result import Certificate, TrainResult
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import StreamSolver
from streammargin.solvers.problem import Outputs, Problem
from streammargin.solvers.registry import SOLVER_CLASSES
from streammargin.solvers.state import State
from streammargin.sources.arrays import ArraySource
from streammargin.sources.checks import check_block
from streammargin.sources.labels import census
from streammargin.sources.names import check_same
from streammargin.sources.open import parts_of
from streammargin.training.setup import Target, class_factors
from streammargin.version import __version__
from streammargin.wording import short


def streaming_solvers() -> list[str]:
    """Names of the solvers that keep nothing per row."""
    return [name for name, cls in SOLVER_CLASSES.items() if issubclass(cls, StreamSolver)]


class Learner:
    """Learns weights from batches (X, y) in the order they arrive, in memory that depends on d and K only.

    options: C has one value. With a finite C the objective sums over max_rows rows, or over as many as the first batch
    has. Can be pickled between two batches.

    Attributes
    ----------
    target : Target, the classes; None before the first batch
    names : (d,) column names of the first batch, None if it has none; later batches must have the same, if any
    batches, rows : int, learned so far
    mistakes : int, rows that were misclassified before they were learned from
    """

    def __init__(self, options: Options) -> None:
        options.check_place(
            Where.STREAM,
            "cannot be used with a stream, read once; leave it out (`max_rows` and `max_seconds` end a stream)",
        )
        if options.midway:
            raise UsageError("`bias=midway` needs a second read of all rows; give the bias of a stream as a number")
        if options.bias == FREE_BIAS:
            raise UsageError("solvers of streams penalise the constant; give `bias` as a number")
        if options.class_weight == "balanced":
            raise UsageError(
                "`class_weight=balanced` needs all rows before the first step; give a factor for each label"
            )
        method = options.solver
        if not isinstance(method, StreamSolver):
            raise UsageError(
                f"{getattr(method, 'called', 'auto')} needs its rows more than once, but a stream has each batch only "
                f"once; use {', '.join(streaming_solvers())}, or write the rows to a file with "
                "streammargin-data convert"
            )
        self.solver: StreamSolver[State] = method
        if options.positive is not None and options.classes is not None:
            raise UsageError("with a stream, `positive` sets one class against all others; leave out `classes`")
        self.options = options
        self.loss: object = terms(self.solver.default_loss if options.loss is None else options.loss)
        self.C = options.costs[0] if options.costs else self.solver.default_C
        self.column: float = options.column([self.C])
        self.batches: int = 0
        self.rows: int = 0
        self.mistakes: int = 0
        self.target: Target | None = None
        self._known: Codes | None = None
        self.names: np.ndarray | None = None  # column names of the first batch
        self.problem: Problem | None = None  # its `rows` is 0
        self.state: State | None = None

    @property
    def features(self) -> int:
        """d, the number of columns of every batch."""
        assert self.problem is not None, "no batch was learned"
        return self.problem.features

    def learn(self, X: object, y: object, sample_weight: object = None, limit: int | None = None) -> None:
        """Learn from each of the first `limit` rows of X (m, d) once, in order, with labels y (m,).

        Raises DataError, naming batch and row (both from 0), for values that are not finite, an unknown label, or
        a different number of columns. Nothing is learned from such a batch.
        """
        name = f"batch {self.batches}"
        source = ArraySource(X, y, sample_weight, name)
        rows = source.rows if limit is None else min(limit, source.rows)
        if len(source.outputs() or [""]) > 1:
            raise DataError(
                f"{name} has several labels a row, and a stream is learned with one; write it with write_hdf5 and "
                "train on the file"
            )
        if self.problem is not None and source.features != self.features:
            raise DataError(
                f"{name} has {source.features} columns but those before it had {self.features}; "
                "all batches must have the same columns"
            )
        names = source.feature_names()
        if self.names is not None and names is not None:
            check_same(self.names, names, "those before it", name)
        given = source.sample_weight()
        weights = np.empty(0) if given is None else check_weights(given[:], source.place)[:rows]
        labels = np.concatenate(list(source.labels()))[:rows]
        values, numbers, _ = census([labels], rows, name)
        target = self._first_target(values, name) if self.target is None else self.target
        known = Codes(target.classes, target.rest, "the stream") if self._known is None else self._known
        codes = self._codes(known, values, numbers, name)
        whole = source.whole() if rows == source.rows else source.read(0, rows, source.allocate(np.array([0, rows])))
        assert whole is not None
        block = check_block(source, whole, 0, borrowed=True)
        if self.problem is None:
            self.problem = self._first_problem(target, source.features, rows, name)
            self.state = self.solver.start(self.problem, NO_ROWS)
            self.target, self._known, self.names = target, known, names
        assert self.state is not None
        self.state.labels = RowLabels(codes, weights, np.empty(0))
        try:
            self.mistakes += self.solver.stream_block(self.problem, self.state, block._replace(bias=self.column))
        finally:
            self.state.labels = NO_ROWS
        self.batches += 1
        self.rows += rows

    def _first_target(self, values: np.ndarray, name: str) -> Target:
        given, rest = self.options.classes, self.options.positive
        known = values if given is None else _listed(given)
        if rest is not None:
            return Target(np.array([f"not {rest}", str(rest)]), np.array([1]), plain(rest))
        if len(known) < 2:
            raise DataError(
                f"{name} has only the label {short(known[0])}; list all labels in advance, with `classes=[...]`"
                if given is None
                else f"classes names {len(known)} class(es); training needs two"
            )
        return Target(known, np.array([1]) if len(known) == 2 else np.arange(len(known)))

    @staticmethod
    def _codes(known: Codes, values: np.ndarray, numbers: np.ndarray, name: str) -> np.ndarray:
        """Codes (m,) int16 of rows whose labels are values[numbers]."""
        codes = np.array(known.of(values), np.int16)[numbers]
        if np.any(codes < 0):
            row = int(np.argmax(codes < 0))
            raise DataError(
                f"{name}: row {row} has the label {short(values[numbers[row]])}, but the known labels are "
                f"{known.matcher.listed()}; list all in advance, with `classes=[...]`"
            )
        return codes

    def _first_problem(self, target: Target, features: int, rows: int, name: str) -> Problem:
        factors = class_factors(self.options.class_weight, target, np.zeros((1, len(target.classes))), name)
        penalty = make_penalty(self.options.penalty).of_columns(PenalisedColumns(features, _no_groups))
        problem = Problem(
            rows=0, features=features, dtype=np.dtype(np.float64), loss=self.loss, penalty=penalty, trials=1,
            outputs=Outputs(target.positive.astype(np.int64), np.full((len(target.positive), 1), self.C) * factors),
            tol=self.options.eps, seed=0, present=self.options.max_rows or rows,
            lines=len(target.positive) if self.options.multiclass == "joint" else 1,
            path=self.options.path is not None, top=self.options.top,
        )  # fmt: skip
        self.solver.check(problem)
        return problem

    def point(self) -> Point:
        """The weights after the last batch."""
        assert self.problem is not None and self.state is not None, "no batch was learned"
        return self.solver.point(self.problem, self.state, self.column, proven=False)

    def certificate(self) -> Certificate:
        """An upper bound on the smallest margin of the classes, from the steps made, if the method has one."""
        assert self.problem is not None and self.state is not None, "no batch was learned"
        if not self.problem.hard:
            return Certificate()
        upper = min(self.solver.margin_bound(self.problem, self.state, k) for k in range(self.problem.groups))
        return Certificate(margin_upper=upper if upper < math.inf else None)

    def run_start(self) -> dict[str, object]:
        """The event after the first batch."""
        assert self.target is not None and self.problem is not None
        return {
            "schema": SCHEMA, "event": "run_start", "version": __version__,
            "params": {**self.options.plain(), "bias": self.column, "p": self.problem.p},
            "data": {
                "path": "stream", "rows": self.options.max_rows, "features": self.features, "nnz": None,
                "fingerprint": None, "classes": [str(c) for c in self.target.classes.tolist()],
            },
            "plan": {"block_rows": self.rows, "blocks": 1, "memory_bytes": self.solver.memory(self.problem)},
        }  # fmt: skip

    def header(self, reason: str, seconds: float) -> dict[str, object]:
        """The header of the model: options, how it ended, and what is known of it."""
        assert self.problem is not None and self.target is not None
        loss = self.solver.default_loss if self.options.loss is None else self.options.loss
        return {
            **self.options.plain(), "loss": str(make_loss(loss)), "C": self.C, "bias": self.column,
            "p": self.problem.p, "rows": self.rows, "features": self.features, "reason": reason, "converged": False,
            "passes_done": 1, "seconds": seconds, "positive": self.target.rest,
            "certificate": self.certificate().to_dict(), "problem": None,
        }  # fmt: skip


def _listed(classes: Sequence[object]) -> np.ndarray:
    """The classes of this option, sorted and of one kind. Raises UsageError."""
    labels = np.empty(len(classes), object)
    labels[:] = [plain(label) for label in classes]
    try:
        return census([labels], len(labels), "classes")[0]
    except DataError as error:
        raise UsageError(f"classes must be labels of one kind ({error.raw})") from None


def _no_groups(given: object) -> np.ndarray:
    raise UsageError("solvers of streams support the penalties l2 and lp; give one of these as `penalty`")


def learn_stream(
    batches: Iterable[object], learner: Learner, history: History, should_stop: Callable[[], str | None] | None
) -> tuple[str, float]:
    """Learn until the batches end or max_rows are read ("passes"), time is up ("seconds"), or a "signal" comes.

    Returns that reason and the seconds it took. Exceptions of the batches pass through.
    """
    max_rows, max_seconds = learner.options.max_rows, learner.options.max_seconds
    started = time.perf_counter()
    reason, waited, asked = "passes", 0.0, started
    for batch in batches:
        waited += time.perf_counter() - asked
        if (parts := parts_of(batch, learner.batches)) is not None:
            first = not learner.batches
            learner.learn(*parts, None if max_rows is None else max_rows - learner.rows)
            if first:
                history.publish(learner.run_start())
            history.progress({"event": "batch", "batch": learner.batches, "rows": learner.rows,
                              "mistakes": learner.mistakes, "elapsed": time.perf_counter() - started})  # fmt: skip
        if max_rows is not None and learner.rows >= max_rows:
            break
        if should_stop is not None and should_stop() is not None:
            reason = "signal"
            break
        asked = time.perf_counter()
        if max_seconds is not None and asked - started >= max_seconds:
            reason = "seconds"
            break
    if not learner.batches:
        raise DataError(f"the stream ended ({reason}) before its first row; give an iterator of batches (X, y)")
    seconds = time.perf_counter() - started
    history.publish(
        {
            "event": "pass_end", "pass": 1, "rows": learner.rows, "seconds": seconds, "read_seconds": waited,
            "compute_seconds": seconds - waited, "wait_seconds": waited, "bytes_read": 0,
            "mistakes": learner.mistakes, "rss_bytes": resident_bytes(), "estimate": None,
        }
    )  # fmt: skip
    return reason, seconds


def train_stream(
    batches: Iterable[object], options: Options, history: History, should_stop: Callable[[], str | None] | None
) -> TrainResult:
    """Learn each row of batches (X, y) or (X, y, sample_weight) once, in order."""
    learner, watch = Learner(options), Stopwatch()
    reason, seconds = learn_stream(batches, learner, history, should_stop)
    assert learner.target is not None
    header = learner.header(reason, seconds)
    end = {
        "event": "run_end", "status": "ok", "converged": False, "reason": reason, "passes": 1, "seconds": seconds,
        "compile_seconds": watch.read()["compile_seconds"], "exit_code": 0, "model": None, "C": learner.C,
    }  # fmt: skip
    history.publish(end)
    model = model_of(learner.point(), learner.target.classes, header, learner.names)
    return TrainResult(model, learner.certificate(), history.events, reason, False, 1, seconds, end)
