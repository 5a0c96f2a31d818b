"""Training on rows that can be read again: options and data become a job, and its run a result."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import streammargin
from streammargin.data.base import Source
from streammargin.data.groups import column_groups
from streammargin.data.names import check_same
from streammargin.data.open import files_read, opened
from streammargin.data.scaled import ScaledSource
from streammargin.data.thinned import thinned
from streammargin.data.watched import WatchedSource
from streammargin.driver.centre import centred, check_near
from streammargin.driver.checkpoint import Checkpoint
from streammargin.driver.choose import choose
from streammargin.driver.events import SCHEMA, History
from streammargin.driver.outcome import Limits, Outcome, certificate_event
from streammargin.driver.path import Path
from streammargin.driver.plan import Plan, check_read, column_names, make_plan, spendable
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.run import Run, run
from streammargin.driver.scaling import VECTORS, Scaling
from streammargin.driver.setup import (
    Target,
    check_caps,
    check_numbers,
    check_weights,
    class_factors,
    class_mass,
    encode,
    make_numbers,
    make_target,
)
from streammargin.driver.slots import written_by
from streammargin.driver.validate import ClassValidator, NumberValidator, Predictions, Validator
from streammargin.errors import DataError, UsageError
from streammargin.files import check_apart
from streammargin.model.linear import LinearModel
from streammargin.options.table import SEVERAL, Options, Where, read_by
from streammargin.result import Certificate, TrainResult
from streammargin.sizes import parse_size
from streammargin.solvers.auto import candidates, reason
from streammargin.solvers.base import Problem, Solver
from streammargin.solvers.registry import AUTO, SOLVERS, make_solver
from streammargin.specs.losses import is_hard, is_numeric, loss_text, make_loss
from streammargin.specs.norms import make_norm, resolve_p
from streammargin.specs.penalties import make_penalty
from streammargin.specs.penalties.base import Given, Penalty
from streammargin.training.identity import identity

LOG = logging.getLogger("streammargin")
PENALISE_BIAS = ("lp", "l2")  # unless it is said otherwise


def train_rows(
    data: Any, options: Options, history: History, should_stop: Callable[[], str | None] | None
) -> TrainResult:
    """Train on a path, a list of paths, (X, y), X or a Source."""
    if options.resume and options.checkpoint is None:
        raise UsageError("`resume` goes on from a directory; name it with `checkpoint=DIR`")
    with ExitStack() as stack:
        checkpoint = None
        if options.checkpoint is not None:  # nobody else writes to the directory from here on
            check_apart(written_by(options.checkpoint), files_read(data, **read_by(vars(options))))
            checkpoint = stack.enter_context(Checkpoint(options.checkpoint, options.checkpoint_seconds))
        least = checkpoint.least_tol() if checkpoint is not None and options.resume else math.inf
        job = prepare(stack, data, options, least)
        training = job.training(history, should_stop)
        if checkpoint is None or not checkpoint.resume(training, job.identity(), options.resume):
            history.publish(job.run_start())
        started = time.perf_counter()
        try:
            outcome = run(training, None if checkpoint is None else checkpoint.keep)
        except ArithmeticError as error:
            raise error if checkpoint is None else checkpoint.contradicted(error) from None
        if checkpoint is not None:
            checkpoint.finish(training)
        seconds = time.perf_counter() - started
    result = job.result(outcome, seconds, history)
    result.resumable = checkpoint is not None and checkpoint.written and outcome.reason in ("signal", "seconds")
    return result


@dataclass(frozen=True)
class Task:
    """What the options alone decide: the loss and C, of most solvers where they were left out."""

    loss: Any
    costs: list[float]

    @property
    def numeric(self) -> bool:
        """Whether labels are numbers."""
        return is_numeric(self.loss)

    @property
    def from_constant(self) -> bool:
        """Whether labels are numbers that are taken from the constant that is best alone, where there is one."""
        return self.numeric and math.inf not in self.costs


def make_task(options: Options) -> Task:
    """Raises UsageError for options that do not fit together, before anything is read."""
    if options.max_rows is not None:
        raise UsageError("`max_rows` ends a stream of batches; files and arrays are read `passes` times")
    # those of `auto` depend on the problem, which is known once the data are open
    declared: Solver | type[Solver] = Solver if options.solver == AUTO else make_solver(options.solver)
    name = declared.default_loss if options.loss is None else options.loss
    loss = make_loss(name, **options.of_the_loss())
    default_C = Solver.default_C if is_numeric(loss) else declared.default_C
    costs = options.costs or [math.inf if is_hard(name) else default_C]
    if is_numeric(loss):
        named = loss_text(name)
        if is_hard(name) and costs != [math.inf]:
            raise UsageError("to interpolate is to meet every target, C = inf; leave `C` out, or give `epsilon`")
        if options.hard and not is_hard(name):
            raise UsageError(f"the loss {named} is for a finite C; to meet every number use `loss=interpolate`")
        place = Where.INTERPOLATION if is_hard(name) else Where.NUMBERS
        options.check_place(place, f"is not for the loss {named}, which takes numbers; leave it out")
    if options.midway and (costs != [math.inf] or is_numeric(loss) or options.multiclass == "joint"):
        raise UsageError(
            "a bias midway lies between the nearest rows of either side, for the hard margin of each class; use "
            "`C=inf` without `multiclass=joint`, or give the bias as a number"
        )
    if options.C_path is not None:
        if options.valid is None:
            raise UsageError(SEVERAL)
        if len(costs) > 2 or costs == [math.inf] or costs != sorted(set(costs)):
            raise UsageError("a path goes up to a finite `C`: give the last value alone, or the first and the last one")
        costs = costs[-1:]
    return Task(loss, costs)


def prepare(stack: ExitStack, data: Any, options: Options, least_tol: float = math.inf) -> Job:
    """Open the rows, read the labels and plan the reading; the stack closes what was opened.

    least_tol: of the training before it was resumed (see `Problem`).
    """
    task = make_task(options)
    column = options.column(task.costs)
    budget = parse_size(options.memory)
    stored = stack.enter_context(opened(data, x=options.x, y=options.y, sample_weight=options.sample_weight))
    source, watched = watch(stored, options)
    target, asked = make_problem(source, task, options, budget)

    # weights of the certificate event and the model are further copies of (K, d+1)
    own = asked.codes.nbytes + asked.weights.nbytes + asked.targets.nbytes
    own += 8 * ((3 + (options.C_path is not None)) * asked.count + 4) * (source.features + 1)
    feature_names = column_names(source, budget, own)
    own += source.names_bytes()
    held_out = None
    if options.valid is not None:
        held_out, more = watch(_held_out(stack, options, source, feature_names, budget, own), options)
        watched += more
    working: Source = source
    if options.scale != "none":
        own += 8 * VECTORS * (source.features + 1)
        working = ScaledSource(source, np.empty(0), np.empty(0))  # to plan with
    asked = replace(asked, budget=max(0, asked.budget - own), least_tol=least_tol)

    def problem_for(method: Solver) -> Problem:
        if task.from_constant and column and options.penalize_bias is None:  # free where the method can leave it so
            able = method.serves(make_objective(source, options, asked.p, free=True), True)
            penalty = make_objective(source, options, asked.p, able)
            return replace(asked, penalty=penalty, norm=penalty.norm or asked.norm, free=able)
        if options.solver != AUTO or task.numeric:
            return asked
        loss = asked.loss if options.loss is not None else make_loss(method.default_loss, **options.of_the_loss())
        caps = asked.caps if options.costs else asked.caps * method.default_C  # it was asked for with C = 1
        costs = asked.costs if options.costs else asked.costs * method.default_C
        return replace(asked, loss=loss, caps=caps, costs=costs)

    def plan_of(rows: Source, method: Solver, problem: Problem, others: int) -> tuple[Problem, Plan]:
        """The plan, and the problem that knows whether all rows are in memory by it."""

        def attempt(fitted: Problem) -> Plan:
            def scratch(m: int, size: int) -> int:
                return method.scratch(fitted, m, size, rows.sparse)

            counted = method.memory(fitted) + others
            return make_plan(rows, budget, counted, scratch, method.together, fitted.count)

        inside, outside = replace(problem, resident=True), replace(problem, resident=False)
        with suppress(UsageError):
            plan = attempt(inside)
            if plan.resident:
                return inside, plan
        return outside, attempt(outside)

    def fit(method: Solver, problem: Problem) -> tuple[Problem, Plan]:
        return plan_of(working, method, problem, own)

    # before anything large is read or allocated
    names = candidates(asked) if options.solver == AUTO else [options.solver]
    if options.solver == AUTO:
        check_served(names, options)
    method, (problem, plan) = choose(names, problem_for, fit)
    better = options.solver != AUTO and _first(candidates(asked), problem_for) not in (None, method.name)
    costs = task.costs if options.costs or task.numeric else [method.default_C]
    scaling: Scaling | None = None
    validator: Validator | None = None
    if options.scale != "none" or held_out is not None:
        left = budget - method.memory(problem) - own
        if options.scale != "none":
            scaling = Scaling(source, options.scale, problem.codes, problem.weights, left)
            working = scaling.scaled(source)
        if held_out is not None:
            rows = held_out if scaling is None else scaling.scaled(held_out)
            if task.numeric:
                _, targets = make_numbers(held_out, np.empty(0))
                validator = NumberValidator(rows, targets - target.shift, problem.loss, problem.trials, left // 4)
            else:
                codes = encode(held_out, target)
                validator = ClassValidator(rows, codes, problem.positive, problem.trials, left // 4)
            own += validator.memory_bytes
            # rows that a solver keeps make room for it
            problem = replace(problem, budget=max(0, problem.budget - validator.memory_bytes))
        problem, plan = plan_of(working, method, problem, own)
    if options.scale == "none":
        slim = thinned(stored, budget - plan.memory_bytes)
        if slim is not stored:
            left = max(0, problem.budget - slim.held_bytes())
            fewer = replace(problem, entries=slim.nnz, sparse=True, budget=left)
            with suppress(UsageError):  # where the method wants more of the budget for sparse rows, they stay dense
                problem, plan = plan_of(slim, method, fewer, own)
                source = working = slim
    why = reason(problem, method.name) if options.solver == AUTO else None
    if why is not None:
        LOG.info("took %s", why)
    return Job(
        options, costs, options.column(costs), method, source, target, problem, working, scaling, validator, plan, why,
        better, watched, feature_names,
    )  # fmt: skip


def watch(source: Source, options: Options) -> tuple[Source, list[WatchedSource]]:
    """The source, watched where another process may go on with it, and a list of what is watched."""
    if options.checkpoint is None:
        return source, []
    watched = WatchedSource(source)
    return watched, [watched]


def _first(names: Sequence[str], problem_for: Callable[[Solver], Problem]) -> str | None:
    """The first of these solvers that serves its problem."""
    for name in names:
        method = make_solver(name)
        with suppress(UsageError):
            method.check(problem_for(method))
            return name
    return None


def check_served(names: Sequence[str], options: Options) -> None:
    """UsageError for an option of single solvers that none of those that `auto` stands for has."""
    for option in options.of_the_solver():
        if not any(option in make_solver(name).options for name in names):
            *others, last = [name for name in SOLVERS if option in make_solver(name).options]
            able = f"{', '.join(others)} and {last}" if others else last
            raise UsageError(f"`{option}` is for {able}; name the one to take with `solver`, or leave it out")


def make_problem(source: Source, task: Task, options: Options, budget: int) -> tuple[Target, Problem]:
    """One read of the labels: what is to be told apart, as K problems for each value of C."""
    labels = (8 if task.numeric else 2) * source.rows + source.column_bytes() + source.weight_bytes()
    check_read(source, budget, labels, "its labels alone")
    weights = check_weights(source.sample_weight(), source)
    p = resolve_p(options.norm, source.features)
    column = options.column(task.costs)
    penalised = options.penalty in PENALISE_BIAS if options.penalize_bias is None else options.penalize_bias
    free = not penalised and column != 0.0
    penalty = make_objective(source, options, p, free)
    targets = np.empty(0)
    if task.numeric:
        target, targets = make_numbers(source, weights)
        if math.inf in task.costs:
            weights = np.empty(0)  # they say who is absent, no more
        else:
            check_numbers(targets, source.name)
        if task.from_constant and column:  # a constant of 0 is left where it is
            target = centred(target, targets, weights, task.loss)
            check_near(target, targets, weights, source.name)
    else:
        target = make_target(source, options.positive, options.classes)
    present = class_mass(target.codes, weights, 1 if task.numeric else len(target.classes), rows=True)
    if not task.numeric and np.count_nonzero(present) < 2:
        raise DataError(f"{source.name}: fewer than two classes have rows of positive weight; training needs two")
    factors = np.ones((1, 1)) if task.numeric else class_factors(options.class_weight, target, weights, source.name)
    check_caps(task.costs, factors, weights, source.rows)
    per_trial = len(target.positive)
    problem = Problem(
        rows=source.rows,
        features=source.features,
        dtype=source.dtype if options.scale == "none" else ScaledSource.dtype,
        loss=task.loss,
        norm=penalty.norm or make_norm(p),
        p=p,
        costs=np.repeat(np.array(task.costs), per_trial),
        penalty=penalty,
        free=free,
        codes=target.codes,
        positive=np.tile(target.positive, len(task.costs)).astype(np.int64),
        caps=np.repeat(np.array(task.costs), per_trial)[:, None] * factors,
        weights=weights,
        trials=len(task.costs),
        tol=options.tol,
        seed=options.seed,
        present=int(present.sum()),
        joint=options.multiclass == "joint" and per_trial > 1,
        options=options.of_the_solver(),
        targets=targets,
        budget=spendable(budget),
        entries=source.nnz,
        sparse=source.sparse,
        largest_target=float(np.abs(targets).max(initial=0.0)),
    )
    return target, problem


def make_objective(source: Source, options: Options, p: float, free: bool) -> Penalty:
    """The penalty of all columns that it is of: of the constant one too, unless that is free."""
    groups = options.groups
    if groups is not None:
        groups = column_groups(groups, source)
        if not free:  # the constant is a group by itself
            groups = np.append(groups, groups.max() + 1)
    return make_penalty(options.penalty, Given(p, options.l1_ratio, groups))


def _held_out(
    stack: ExitStack, options: Options, source: Source, feature_names: np.ndarray | None, budget: int, own: int
) -> Source:  # fmt: skip
    # labels in a file of their own are those of the rows of `source` alone
    y = options.y
    names = y if isinstance(y, str) and not (":" in y or y.endswith(".npy")) else None
    held_out = stack.enter_context(opened(options.valid, x=options.x, y=names))
    if held_out.features != source.features:
        raise DataError(
            f"{held_out.name} has {held_out.features} columns but {source.name} has {source.features}; convert both "
            "with streammargin-data convert and the same --features"
        )
    if options.scale == "std" and held_out.sparse and not source.sparse:
        raise UsageError(
            f"{held_out.name} is sparse, and `scale=std` centres the dense rows of {source.name}, as no sparse rows "
            "can be; write both as dense or both as sparse rows, or use `scale=maxabs`"
        )
    if feature_names is not None:
        others = column_names(held_out, budget, own)
        if others is None:
            text = f"{held_out.name} has no names of columns, as {source.name} has: they are taken by position"
            LOG.warning(text, extra={"code": "columns"})
        else:
            check_same(feature_names, others, source.name, held_out.name)
    return held_out


@dataclass(frozen=True)
class Job:
    """A training that is ready to run.

    costs: the values of C; column: the value of the constant column, 0 for none.
    why: one line on what `auto` took, None where a solver was named; better: `auto` would have taken another one.
    names (d,) of the columns, None for none.
    working: the rows as the method sees them, scaled where that was asked for.
    watched: the rows, and the held-out ones, as they are stored, where there is a checkpoint.
    """

    options: Options
    costs: list[float]
    column: float
    method: Solver
    source: Source
    target: Target
    problem: Problem
    working: Source
    scaling: Scaling | None
    validator: Validator | None
    plan: Plan
    why: str | None
    better: bool
    watched: list[WatchedSource]
    names: np.ndarray | None

    def params(self) -> dict[str, Any]:
        """The options as they were meant: defaults and `auto` resolved."""
        costs = self.costs
        return {
            **self.options.plain(),
            "solver": self.method.name,
            "loss": loss_text(self.method.default_loss if self.options.loss is None else self.options.loss),
            "C": costs if len(costs) > 1 else costs[0] if self.options.C_path is None else self.options.plain()["C"],
            "bias": self.options.bias if self.options.midway else self.column,
            "penalize_bias": not self.problem.free if self.column else None,
            "p": self.problem.p,
        }

    def run_start(self) -> dict[str, Any]:
        """The event before the first pass."""
        source, plan = self.source, self.plan
        kept = None if plan.resident else self.method.layout(self.problem).get("rows kept")
        return {
            "schema": SCHEMA, "event": "run_start", "version": streammargin.__version__, "params": self.params(),
            "data": {
                "path": source.name, "rows": source.rows, "features": source.features, "nnz": source.nnz,
                "fingerprint": source.fingerprint(), "classes": [str(c) for c in self.target.classes.tolist()],
            },
            "plan": {
                "block_rows": plan.block_rows, "blocks": plan.blocks, "memory_bytes": plan.memory_bytes,
                "kept_bytes": kept.bytes if kept is not None else 0,
            },
            "solver": self.why,
        }  # fmt: skip

    def identity(self) -> dict[str, Any]:
        """What must be the same for another process to go on."""
        return identity(self.params(), self.problem, self.names, self.validator, self.plan)

    def training(self, history: History, should_stop: Callable[[], str | None] | None) -> Run:
        """The run, before its first block."""
        options, plan = self.options, self.plan
        limits = Limits(options.tol, options.passes, options.max_seconds, 1 + options.midway)
        reader = BlockReader(self.working, plan.bounds, plan.buffers, plan.resident)
        readers = [(0, reader)]
        if self.scaling is not None:
            readers.append((0, self.scaling.reader))
        if self.validator is not None:
            readers.append((1, self.validator.reader))
        if self.watched:
            for number, one in readers:
                self.watched[number].cut(one.bounds)
            for watched in self.watched:
                watched.look()
        path = None
        if options.C_path is not None:
            path = Path(self.problem, self.costs[0], options.C_path, options.costs or ())
        predictions = None
        if self.target.rest is None and not self.problem.targets.size:
            classes = len(self.target.classes)
            predictions = Predictions(self.problem, classes, reader, self.validator, self.column)
        return Run(
            self.problem, self.method, reader, self.column, limits, self.costs, self.validator, history, should_stop,
            publish=bool(history.listeners), midway=options.midway, scaling=self.scaling, path=path,
            watched=self.watched, predictions=predictions,
        )  # fmt: skip

    def unpredicted(self, outcome: Outcome) -> list[str] | None:
        """The classes that the model never predicts; None where that is not known."""
        if outcome.predicted is None:
            return None
        there = class_mass(self.problem.codes, self.problem.weights, len(self.target.classes), rows=True)
        return [str(label) for label in self.target.classes[(there > 0) & ~outcome.predicted].tolist()]

    def result(self, outcome: Outcome, seconds: float, history: History) -> TrainResult:
        """The model of the value of C that did best, for the rows as they are, and what was proven of it."""
        problem, target, costs = self.problem, self.target, self.costs
        trial, chosen = outcome.best(problem), outcome.chosen(problem)
        certificates = [self._certificate(outcome, number) for number in range(problem.trials)]
        certificate, C = certificates[trial], costs[trial] if outcome.C is None else outcome.C
        converged = certificate["converged"] = bool(outcome.converged[chosen].all())
        coef = outcome.w[chosen, :-1]
        if self.scaling is not None:
            coef = coef * self.scaling.factor
        constant = outcome.w[chosen, -1] * self.column
        if outcome.midway is not None:
            constant = outcome.midway[chosen]
        elif self.options.midway:
            LOG.warning("stopped before the bias midway was found: it is 0", extra={"code": "bias"})
        intercept = constant + target.shift
        if self.scaling is not None:
            intercept -= coef @ self.scaling.center
        header = {
            **self.params(), "C": C, "rows": problem.rows, "features": problem.features,
            "reason": outcome.reason, "converged": converged, "passes_done": outcome.passes, "seconds": seconds,
            "positive": target.rest, "certificate": certificate, "problem": self._problem(outcome.midway is not None),
        }  # fmt: skip
        model = LinearModel(coef, intercept, target.classes, header, self.names)
        model.problem = self._arrays(problem.caps[chosen][0] * (1.0 if outcome.C is None else outcome.C / costs[trial]))
        end = {
            "event": "run_end", "status": "ok", "converged": converged, "reason": outcome.reason,
            "passes": outcome.passes, "seconds": seconds, "exit_code": 0, "model": None,
            "C": C if len(costs) > 1 or outcome.path else None,
            "trials": outcome.path or (self._trials(certificates) if len(costs) > 1 and outcome.figures else None),
            **{key: certificate[key] for key in ("gap", "margin_gap", "residual", "valid_error")},
            "zeros": None if outcome.zeros is None else np.flatnonzero(outcome.zeros[chosen].all(axis=0)).tolist(),
            "smallest_margin": outcome.smallest_margin, "never_predicted": self.unpredicted(outcome),
        }  # fmt: skip
        history.publish(end)
        return TrainResult(
            model, Certificate(**certificate), history.events, outcome.reason, converged, outcome.passes, seconds, end,
            better=self.better, ranges=outcome.ranges,
        )  # fmt: skip

    def _problem(self, midway: bool) -> dict[str, Any]:
        """What was minimised, as far as options do not say it, in plain values: `verify` sums it up again."""
        options, problem = self.options, self.problem
        kind = "free" if problem.free else "penalised" if self.column else "midway" if midway else "none"
        names = {name: getattr(options, name) for name in ("x", "y", "sample_weight")}
        absent = problem.targets.size > 0 and bool(np.any(problem.codes < 0))  # numbers to be met have no other weights
        return {
            "constant": {"kind": kind, "value": self.column}, "shift": self.target.shift,
            "joint": problem.joint, "weighted": problem.weights.size > 0 or absent,
            "names": {name: value if isinstance(value, str) else None for name, value in names.items()},
        }  # fmt: skip

    def _arrays(self, caps: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of the same; caps: C times the weight of each class."""
        arrays = {"caps": caps}
        if self.scaling is not None:
            arrays |= {"center": self.scaling.center, "factor": self.scaling.factor}
        groups = getattr(self.problem.penalty, "groups", None)
        if groups is not None:
            arrays["groups"] = groups.of[: self.problem.features]
        return arrays

    def _certificate(self, outcome: Outcome, trial: int) -> dict[str, Any]:
        """The exact figures of one value of C."""
        if outcome.figures is None:
            return Certificate().to_dict()
        error = None if outcome.valid_errors is None else float(outcome.valid_errors[trial])
        return certificate_event(self.problem, trial, outcome.figures, outcome.wrong, error)

    def _trials(self, certificates: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What several values of C are compared by."""
        names = ("gap", "margin_gap", "train_error", "valid_error")
        return [
            {"C": C, **{name: certificate[name] for name in names}}
            for C, certificate in zip(self.costs, certificates, strict=True)
        ]
