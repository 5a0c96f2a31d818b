"""A prepared training: builds the run, and turns its outcome into a result."""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike

from streammargin.driver.learn.steps import Scaling, Step, bytes_beside
from streammargin.driver.learn.validate import RARE, Calibrating, Predictions, Validator, middles
from streammargin.driver.loop.course import Shared
from streammargin.driver.loop.holders import Elsewhere
from streammargin.driver.loop.run import Run
from streammargin.driver.loop.runs import Runs
from streammargin.driver.save.checkpoint import PLAN, machine
from streammargin.driver.status.clock import Clock, Limits
from streammargin.driver.status.events import SCHEMA, History
from streammargin.driver.status.outcome import Outcome, certificate_event
from streammargin.driver.status.path import RunPath
from streammargin.driver.status.progress import MAPPING, SCALING
from streammargin.json_values import to_plain
from streammargin.losses import make_loss
from streammargin.losses.base import has
from streammargin.model.base import Model
from streammargin.model.calibration import learned
from streammargin.model.linear import model_of
from streammargin.model.scoring import METHOD, OF_ALL
from streammargin.options.folds import Folds, Share
from streammargin.options.table import FREE_BIAS, MAY_CHANGE, MIDWAY_BIAS, TABLE_OPTIONS, Options
from streammargin.penalties.base import Penalty
from streammargin.penalties.domains import Domain
from streammargin.points.base import Point
from streammargin.points.expansion import Expansion
from streammargin.points.linear import LinearPoint
from streammargin.points.mapped import Mapped
from streammargin.reading.labels import LabelReader
from streammargin.reading.plan import Plan
from streammargin.reading.prefetch import BlockReader
from streammargin.result import Certificate, CrossValidation, TrainResult
from streammargin.saved.words import held_out_rows
from streammargin.solvers.base import Method
from streammargin.solvers.leaves import may_split
from streammargin.solvers.problem import Problem, standard_errors
from streammargin.sources.base import Source
from streammargin.sources.labels import ATTRIBUTE
from streammargin.sources.names import packed
from streammargin.sources.schema import plain_of
from streammargin.sources.views import TransformedSource, WatchedSource
from streammargin.training.setup import Survey, Target
from streammargin.transforms.chain import Chain
from streammargin.version import __version__
from streammargin.wording import warn


@dataclass(frozen=True)
class Job:
    """A prepared training.

    costs: the values of C;
    known: what the labels of all rows say;
    working: the rows as the solver sees them, after all steps;
    steps: by the phases in which they are learned;
    why: one line on the choice of `auto`, None if a solver was named;
    better: whether `auto` would have chosen another solver;
    watched: with a checkpoint, the training and held-out sources as stored;
    names: (d,) column names, or None;
    start: what to begin from, for unscaled rows and shifted targets, one output per class; None: 0;
    constant_in_columns: whether columns carry a part of the constant, see `LinearModel.remark`;
    label_column: of the table that the labels were from, by name or number; None if it is unknown.
    """

    options: Options
    costs: list[float]
    method: Method
    source: Source
    target: Target
    labels: LabelReader
    known: Survey
    problem: Problem
    working: Source
    steps: dict[str, Step]
    validator: Validator | None
    plan: Plan
    why: str | None
    better: bool
    watched: list[WatchedSource]
    names: np.ndarray | None
    start: LinearPoint | None
    constant_in_columns: bool
    label_column: str | int | None

    def params(self) -> dict[str, object]:
        """The options as they were meant: defaults and `auto` resolved."""
        costs = list(dict.fromkeys(self.costs))  # with folds each C has several trainings
        return {
            **self.options.plain(),
            "solver": str(self.method),
            "loss": str(make_loss(self.method.default_loss if self.options.loss is None else self.options.loss)),
            "C": costs if len(costs) > 1 else costs[0] if self.options.path is None else str(self.options.path),
            "bias": MIDWAY_BIAS if self.options.midway else FREE_BIAS if self.problem.free else self.problem.column,
            "p": self.problem.p,
            "multiclass": None if self.problem.numeric else "joint" if self.problem.all_scores else "ovr",
        }

    @property
    def left_out(self) -> list[int] | None:
        """(folds, seed) of the rows that a share holds out; None without one."""
        share = self.options.valid
        return [share.count, self.options.seed] if isinstance(share, Share) else None

    def run_start(self, typed: Options | None = None) -> dict[str, object]:
        """The event before the first pass; typed: the options with those of a table, which its spool uses up."""
        source, plan, by = self.source, self.plan, self.target.group_column
        cv, valid = self.options.cv, self.options.valid
        params = self.params()
        params |= {name: getattr(typed or self.options, name) for name in TABLE_OPTIONS if name in params}
        folds = cv.replace(by=by) if isinstance(cv, Folds) and isinstance(cv.by, str) and by else cv
        return {
            "schema": SCHEMA, "event": "run_start", "version": __version__,
            "params": {
                **params, "cv": str(folds) if isinstance(folds, Folds) else None,
                "valid": str(valid) if isinstance(valid, (str, Share)) else None,
            },
            "data": {
                "path": source.name, "rows": source.rows, "held_out": held_out_rows(source.rows, self.left_out),
                "features": source.features, "nnz": source.nnz,
                "fingerprint": source.fingerprint(), "classes": [str(c) for c in self.target.classes.tolist()],
                "outputs": self.target.outputs, "groups": self.target.group_column,
            },
            "plan": {
                "block_rows": plan.block_rows, "blocks": plan.blocks, "memory_bytes": plan.memory_bytes,
                "kept_bytes": 0 if plan.resident else self.method.kept_bytes(self.problem),
                "most_threads": max(1, self.problem.copies) if may_split(self.problem, plan.block_rows) else None,
            },
            "solver": self.why,
        }  # fmt: skip

    def identity(self) -> dict[str, object]:
        """What must be the same for another process to resume: what decides the bits, and labels by what they hold.

        The rows are compared when they are read (sources/views.py), but for those that others read.
        """
        params, known, start, names = self.params(), _of_labels(self.labels), self.start, self.names
        validator = self.validator
        return {
            **{name: value for name, value in to_plain(params).items() if name not in MAY_CHANGE},
            "rows": self.problem.rows, "features": self.problem.features,
            "penalty": _held(self.problem.objective.penalty, str(params["penalty"])), **known,
            "held-out labels": None if validator is None or validator.late else _of_labels(validator.labels)["labels"],
            "folds": None if self.options.folds is None else str(self.options.folds),
            "first weights": None if start is None else digest_of_arrays(start.w),
            "names of columns": None if names is None else digest_of_arrays(packed(names)),
            PLAN: digest_of_arrays(self.plan.bounds), **machine(),
            **({"files": self.source.fingerprint()} if self.problem.holders > 1 else {}),
        }  # fmt: skip

    def training(
        self, history: History, should_stop: Callable[[], str | None] | None, elsewhere: Elsewhere | None = None
    ) -> Runs:
        """The runs of this training, before the first block; elsewhere: who holds the rows of a reader."""
        options, plan = self.options, self.plan
        early = options.early_stop
        sweeps = 1 + options.midway * (1 + self.problem.compared) + (early is not None)
        sweeps += options.calibrate is not None
        limits = Limits(options.eps, options.passes, options.max_seconds, sweeps, early)
        reader = BlockReader(self.working, plan.bounds, plan.buffers, plan.resident, self.labels, self.problem.workers)
        readers = [(0, reader)]
        readers += [(0, step.reader) for step in self.steps.values()]
        if self.validator is not None and self.validator.late:
            self.validator.reader = reader
        elif self.validator is not None:
            readers.append((1, self.validator.reader))
        if self.watched:
            for number, one in readers:
                self.watched[number].cut(one.bounds)
            for watched in self.watched:
                watched.look()
        path = None
        if options.path is not None:
            path = RunPath(self.problem, self.costs[0], options.path.values, options.path.low, options.path.high)
        predictions = None
        plain = self.target.rest is None and not (self.problem.outputs.several or self.problem.outputs.tasks)
        if plain and not self.problem.numeric:
            predictions = Predictions(self.problem, self.known.mass[1, 0], reader, self.validator, path)
        calibrating = None if options.calibrate is None else Calibrating(path)
        shared = Shared(
            self.labels.in_memory(), reader, limits, Clock(limits, reader.counts), history, should_stop,
            self.validator, self.steps, options.midway, predictions, self.watched, self.start,
            {} if elsewhere is None else {one: elsewhere(one) for _, one in readers},
            not any(self.problem.sides) and bytes_beside(self.source, options) > 0, calibrating,
        )  # fmt: skip
        return Runs(Run(shared, self.problem, self.costs, self.method), path)

    def unpredicted(self, outcome: Outcome) -> dict[str, list[str] | None]:
        """The classes predicted for no row, and for less than a tenth as many as they have; None if unknown."""
        often = outcome.predicted
        if often is None:
            return dict.fromkeys(("never_predicted", "rarely_predicted"))
        present, never = self.known.mass[1, 0] > 0, often == 0.0
        few = {"never_predicted": never, "rarely_predicted": ~never & (often < RARE)}
        return {name: list(map(str, self.target.classes[present & which].tolist())) for name, which in few.items()}

    def result(self, outcome: Outcome, took: dict[str, float], history: History) -> TrainResult:
        """The model at the best value of C, for unscaled rows, and its certificate; took: see `Stopwatch.read`."""
        problem, costs = self.problem, self.costs
        if outcome.C is not None:
            problem = problem.at(outcome.C / costs[0])
        trial = outcome.best(problem)
        certificates = [self._certificate(problem, outcome, number) for number in range(problem.trials)]
        tried = problem.tried
        same = [trial] if tried is None else range(trial % tried.values, problem.trials, tried.values)  # at its C
        converged = all(outcome.converged[problem.groups_of(one)].all() for one in same)
        C = costs[trial] if outcome.C is None else outcome.C
        if len(costs) > 1:
            rest = [costs[k] for k in range(len(costs)) if not outcome.converged[problem.groups_of(k)].all()]
            rest = list(dict.fromkeys(rest))
            outcome = replace(outcome, unproven=rest)
            outcome = outcome.of_kept() if converged else outcome
        certificate = replace(certificates[trial], converged=converged)
        if self.options.midway and outcome.midway is None:
            warn("stopped before the midway bias was computed: the bias is 0", "bias")
        answer = self._as_stored(outcome.best_point(problem))
        header = {
            **self.params(), "C": C, "rows": problem.rows, **self._sizes(answer), "reason": outcome.reason,
            "converged": converged, "passes_done": outcome.passes, "seconds": took["seconds"],
            "certificate": certificate.to_dict(), "train_loss": self._mean_loss(problem, outcome),
        }  # fmt: skip
        model = self._model(problem, outcome, answer, header)
        figures = {key: certificate[key] for key in ("gap", "mean_gap", "margin_gap", "residual", "valid_error")}
        end = {
            "event": "run_end", "status": "ok", "converged": converged, "reason": outcome.reason,
            "passes": outcome.passes, **took, "exit_code": 0, "model": None, "C": C,
            "trials": outcome.path or self._trials(outcome, certificates), **figures,
            **dict.fromkeys(("zeros", "smallest_margin", "never_predicted", "rarely_predicted", "pass")),
            "chosen": len(set(costs)) == 1 or outcome.path is not None or outcome.valid_errors is not None,
            "unproven": outcome.unproven, "shares_loss": self._loss_of_shares(problem, outcome),
            **self._more(problem, outcome, answer),
        }  # fmt: skip
        history.publish(end)
        return TrainResult(
            model, certificate, history.events, outcome.reason, converged, outcome.passes, took["seconds"], end,
            better=self.better, limit=outcome.limit, ranges=outcome.ranges, hidden=outcome.hidden,
            cramped=self.method.wants_memory(self.problem), cross_validation=self._chosen(outcome, certificates),
            trials=None if self.problem.tried is None else self._as_stored(outcome.point),
        )  # fmt: skip

    def _sizes(self, answer: Point) -> dict[str, object]:
        """The sizes of the rows, for the header."""
        return {"features": self.source.features}

    def _model(self, problem: Problem, outcome: Outcome, answer: Point, header: dict[str, object]) -> Model:
        """The model of an answer, at one value of C, with the rest of its header."""
        target = self.target
        header |= {
            "positive": target.rest, ATTRIBUTE: self.label_column, "outputs": target.outputs,
            "tasks": target.tasks.tolist() or None, "problem": self._problem(outcome.midway is not None),
            **({} if (table := plain_of(self.source)) is None else {"table": table}),
        }  # fmt: skip
        if isinstance(answer, Expansion):
            header |= {"kernel": str(answer.kernel), "support": answer.numbers.size}
        if isinstance(answer, Mapped):
            header |= {"map": str(answer.fitted.map)}
        model = model_of(answer, target.classes, header, self.names)
        caps, tasks = problem.outputs.caps[outcome.chosen(problem)], problem.outputs.tasks
        if tasks:  # those of each task alone
            caps = caps.reshape(tasks, tasks, -1)[np.arange(tasks), np.arange(tasks)]
        of_each = tasks or (problem.outputs.several and not problem.numeric)
        model.problem = self._arrays(caps if of_each else caps[0])
        model.steps = self._chain()
        if outcome.counted is not None and self.options.calibrate is not None:
            model.calibration = learned(self.options.calibrate, *outcome.counted, middles(outcome.counted[0]))
        elif self.options.calibrate is not None:
            warn("stopped before the scores were calibrated: the model has no such probabilities", "calibrate")
        if isinstance(answer, LinearPoint):
            scaling = self.steps.get(SCALING)
            measured = scaling.measured if isinstance(scaling, Scaling) else outcome.measured
            if measured is not None:
                model.moments, header["measured_rows"] = measured[:2], measured.rows
        return model

    def _chain(self) -> Chain | None:
        """The steps that rows take before the answer, or None."""
        chain = self.source.chain if isinstance(self.source, TransformedSource) else None
        scaling = self.steps.get(SCALING)
        if isinstance(scaling, Scaling) and (link := scaling.link):
            return Chain([*(chain.links if chain else []), link])
        return chain

    def _more(self, problem: Problem, outcome: Outcome, answer: Point) -> dict[str, object]:
        """What else the event of the end says."""
        zeros = None if outcome.zeros is None else outcome.zeros[outcome.chosen(problem)]
        return {
            "zeros": None if zeros is None else np.flatnonzero(zeros.all(axis=0)).tolist(),
            "smallest_margin": outcome.smallest_margin, **self.unpredicted(outcome),
            "pass": None if outcome.kept is None else int(outcome.kept[outcome.best(problem)]),
        }  # fmt: skip

    def _problem(self, midway: bool) -> dict[str, object]:
        """The parts of the objective that options do not give, as plain values; `verify` recomputes it from them."""
        options, problem = self.options, self.problem
        kind = "free" if problem.free else "penalised" if self.problem.column else "midway" if midway else "none"
        given = {name: getattr(options, name) for name in ("x", "y", "sample_weight")}
        names = {**self.source.named, **{name: value for name, value in given.items() if value is not None}}
        names |= {"mask": options.mask or self.source.mask, "columns": options.of_others or self.source.of_others}
        names |= {"tasks": self.target.task_column}
        absent = problem.numeric and self.known.absent  # interpolation has no weights except 0
        return {
            "constant": {"kind": kind, "value": self.problem.column}, "shift": np.asarray(self.target.shift).tolist(),
            "joint": problem.all_scores, "lines": problem.lines,
            "constant_in_columns": self.constant_in_columns, "of_folds": options.folds is not None,
            "left_out": self.left_out,
            "weighted": self.known.extremes.size > 0 or absent,
            "names": {name: value if isinstance(value, str) else None for name, value in (given | names).items()},
        }  # fmt: skip

    def _arrays(self, caps: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays that define the objective, for `verify`; caps: C times the weight of each class."""
        arrays = {"caps": caps}
        scaling = self.steps.get(SCALING)
        if isinstance(scaling, Scaling) and not (scaling.link or MAPPING in self.steps):  # else it is of the answer
            arrays |= {"center": scaling.center, "factor": scaling.factor}
        groups = getattr(self.problem.penalty, "groups", None)
        if groups is not None:
            arrays["groups"] = groups.of[: self.problem.features]
        return arrays

    def _certificate(self, problem: Problem, outcome: Outcome, trial: int) -> Certificate:
        """The exact figures of one value of C."""
        error = None if outcome.valid_errors is None else float(outcome.valid_errors[trial])
        if outcome.figures is None:  # the error of the best pass is known all the same
            return Certificate(valid_error=None if outcome.kept is None else error)
        return Certificate(**certificate_event(problem, trial, outcome.figures, outcome.wrong, error))

    def _mean_loss(self, problem: Problem, outcome: Outcome) -> float | None:
        """The mean loss of the rows that are trained on, by the objective, as `evaluate` has it, or None.

        None: it is not that of the model, or depends on weights of rows, or on the constant alone.
        """
        target, lines, trial = self.target, outcome.chosen(problem), outcome.best(problem)
        point, caps = outcome.point.chosen(lines), problem.outputs.caps[lines]
        moved = outcome.midway is not None or target.outputs is not None or len(target.tasks) > 0
        if outcome.figures is None or moved or self.known.extremes.size or problem.hard or caps.min() < caps.max():
            return None
        if not isinstance(point, LinearPoint) or not point.w[:, :-1].any():
            return None
        proven, objective = outcome.figures[problem.groups_of(trial)], problem.objective
        weights = point.w if problem.lines == 1 else point.w.reshape(len(proven), problem.lines, -1)
        total = math.fsum(one.primal - objective.regulariser(w) for one, w in zip(proven, weights, strict=True))
        return total / float(caps.max()) / max(1, problem.rows_of(trial))

    def _loss_of_shares(self, problem: Problem, outcome: Outcome) -> float | None:
        """The mean log loss of a guess by the shares of the classes, of the rows that are trained on.

        None: the loss is not the log loss of one label a row, or the model is calibrated.
        """
        target, masses = self.target, problem.outputs.mass
        likely = (has(problem.loss, METHOD) and len(target.classes) == 2) or has(problem.loss, OF_ALL)
        apart = target.outputs is not None or len(target.tasks) > 0 or self.options.calibrate is not None
        if not likely or apart or not masses.size:
            return None
        mass = masses[outcome.chosen(problem)][0]
        shares = mass[mass > 0.0] / mass.sum()
        return float(-(shares * np.log(shares)).sum())

    def _chosen(self, outcome: Outcome, certificates: list[Certificate]) -> CrossValidation | None:
        """The errors of the folds; None without folds, or if nothing was proven."""
        tried = self.problem.tried
        if tried is None or not tried.whole or outcome.valid_errors is None:
            return None
        gaps = np.array([math.nan if one.gap is None else one.gap for one in certificates])
        errors = outcome.valid_errors.reshape(-1, tried.values)[: tried.folds]
        best = tried.chosen(outcome.valid_errors, np.array(self.costs[: tried.values])) % tried.values
        return CrossValidation(
            np.array(self.costs[: tried.values]), errors, errors.mean(axis=0), standard_errors(errors),
            gaps.reshape(-1, tried.values).max(axis=0), best,
        )  # fmt: skip

    def _as_stored(self, point: Point) -> Point:
        """The point for rows as they are stored, given one for rows after all steps."""
        point = point.unscaled(None, None, self.target.shift)
        for step in reversed(self.steps.values()):
            point = step.answer(point)
        return point

    def _of_folds(
        self, outcome: Outcome, found: CrossValidation, certificates: list[Certificate]
    ) -> list[dict[str, object]]:
        """What compares values of C by folds: the mean error, its standard error, and the worst gap of a trial."""
        first, zeros = found.errors.size, self._nonzeros(outcome)
        return [
            {
                "C": C, "pass": None, "gap": gap, "mean_gap": None, "margin_gap": None,
                "train_error": certificates[first + k].train_error, "valid_error": float(found.mean[k]),
                "valid_error_se": float(found.se[k]), "folds": found.errors[:, k].tolist(), "nonzeros": zeros[k],
            }
            for k, (C, gap) in enumerate(zip(found.Cs.tolist(), found.gaps.tolist(), strict=True))
        ]  # fmt: skip

    def _nonzeros(self, outcome: Outcome) -> list[int | None]:
        """The weights other than 0 of the trials of all rows, without the constants; None without weights."""
        tried, w = self.problem.tried, getattr(outcome.point, "w", None)
        if tried is None or w is None:
            return [None] * (0 if tried is None else tried.values)
        lines = w[-tried.values * self.problem.per_trial :, :-1].reshape(tried.values, -1)
        return np.count_nonzero(lines, axis=1).tolist()

    def _trials(self, outcome: Outcome, certificates: list[Certificate]) -> list[dict[str, object]] | None:
        """The measure that compares several values of C; None for one value, or if nothing was proven."""
        if (found := self._chosen(outcome, certificates)) is not None:
            return self._of_folds(outcome, found, certificates)
        if len(self.costs) == 1 or not outcome.figures:
            return None
        names = ("gap", "mean_gap", "margin_gap", "train_error", "valid_error")
        kept = [None] * len(self.costs) if outcome.kept is None else outcome.kept.tolist()
        return [
            {"C": C, "pass": number, **{name: certificate[name] for name in names}}
            for C, number, certificate in zip(self.costs, kept, certificates, strict=True)
        ]


def _held(penalty: Penalty, word: str) -> str:
    """The word of a penalty, or what its fields hold if that is more than a word shows: arrays, and groups."""
    if isinstance(penalty, Domain):  # of which its arrays are made
        return word
    held = {field.name: getattr(penalty, field.name) for field in fields(penalty)}
    if all(value is None or isinstance(value, (str, numbers.Real)) for value in held.values()):
        return word
    arrays = (np.ndarray, list, tuple)
    told = [f"{name}={digest_of_arrays(v) if isinstance(v, arrays) else repr(v)}" for name, v in held.items()]
    return f"{penalty.name}({', '.join(told)})"


def _of_labels(labels: LabelReader) -> dict[str, str]:
    """Digests of the labels of all rows, and of their epsilons, from one read."""
    parts = [hashlib.blake2b(digest_size=8) for _ in range(4)]
    for piece in labels.pieces():
        for part, array in zip(parts, (piece.codes, piece.weights, piece.targets, piece.epsilons), strict=True):
            part.update(np.ascontiguousarray(array).data)
    *first, epsilons = [part.hexdigest() for part in parts]
    return {"labels": " ".join(first), "epsilons": epsilons}


def digest_of_arrays(*arrays: ArrayLike) -> str:
    """The digest of what arrays hold."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
