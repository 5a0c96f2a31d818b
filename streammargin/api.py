"""streammargin.train: the main job as one call."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

import streammargin
from streammargin.checks import (
    LARGEST_C,
    PASSES,
    TOL,
    check_labels,
    check_numeric,
    check_options,
    number,
    plain_params,
    solver_options,
)
from streammargin.data.base import Source
from streammargin.data.open import is_stream, opened
from streammargin.driver.choose import choose
from streammargin.driver.events import SCHEMA, History, Listener
from streammargin.driver.midway import MIDWAY
from streammargin.driver.outcome import Limits, Outcome, certificate_event
from streammargin.driver.plan import Plan, make_plan, parse_size, spendable
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.run import Run, run
from streammargin.driver.scaling import Scaling
from streammargin.driver.setup import (
    check_weights,
    class_factors,
    class_mass,
    encode,
    make_numbers,
    make_target,
)
from streammargin.driver.validate import Validator
from streammargin.errors import DataError, UsageError
from streammargin.model.linear import LinearModel
from streammargin.result import FIGURES, TrainResult
from streammargin.solvers.auto import candidates
from streammargin.solvers.base import Problem, Solver
from streammargin.solvers.registry import AUTO, make_solver
from streammargin.specs.losses import is_numeric, loss_text, make_loss
from streammargin.specs.norms import make_norm, resolve_p
from streammargin.streams import train_stream

LOG = logging.getLogger("streammargin")


def train(
    data: Any,
    *,
    x: str | None = None,
    y: Any = None,
    sample_weight: Any = None,
    solver: str = "sdca",
    loss: Any = None,
    width: float = 1.0,
    epsilon: float = 0.0,
    C: float | Sequence[float] | None = None,
    norm: float | str = 2,
    tol: float = TOL,
    passes: int = PASSES,
    max_seconds: float | None = None,
    max_rows: int | None = None,
    memory: str | int = "1G",
    seed: int = 0,
    bias: float | str | None = None,
    scale: str = "none",
    class_weight: str | Mapping[Any, float] | None = None,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    multiclass: str = "ovr",
    average: bool | None = None,
    schedule: str | None = None,
    stochastic: bool | None = None,
    valid: Any = None,
    listeners: Iterable[Listener] = (),
    should_stop: Callable[[], str | None] | None = None,
) -> TrainResult:
    """Train a linear large-margin classifier: min 1/2 ||w||_p^2 + C sum_i s_i phi(y_i x_i.w).

    Parameters
    ----------
    data : path, list of paths (shards), (X, y), Source, or an iterable of batches (X, y) or (X, y, sample_weight)
        Rows (n, d). y: dataset name, FILE:NAME, or array (n,) of labels; x: dataset or group of rows. See Streams.
    sample_weight : dataset name or array (n,), optional
        s_i >= 0, multiplies C for its row; 0 means that the row is absent.
    solver : see `streammargin train --help`; auto: by C, norm and multiclass, and the model names the one taken
    loss, width : hinge, squared_hinge, smooth_hinge (of this width) or logistic; default: the solver's, hinge.
        Or interpolate: labels are numbers y, and w the smallest with |x_i.w - y_i| <= epsilon (C = inf only);
        a sample weight of 0 is an absent row, any other changes nothing
    C : float, math.inf (hard margin), or several, trained from one read and chosen on `valid`; default 1,
        or inf for a solver that knows the hard margin alone
    norm : p in (1, 2], or "sparse" for 1 + 1/ln d
    tol : relative duality gap; for the hard margin, relative margin gap; to interpolate: no violation beyond
        tol max|y|, and a norm as near as tol (of 1/2 ||w||_p^2) to the bound below every interpolator's
    passes, max_seconds : other reasons to stop
    max_rows : rows after which a stream ends
    memory : bytes, or text like "512M": bounds everything that grows with the data
    bias : value of a constant, regularised column; None for no such column. Or "midway" (C = inf only): train without
        one, then put the hyperplane midway between the nearest rows of either side, in one more read (homotopic paper,
        eq. (15)). The figures stay those of the hyperplane through 0, but for valid_error; the bias can only widen
        the margin, and `model.evaluate` tells by how much
    scale : none, maxabs or std; folded into the weights
    class_weight : "balanced" or {label: factor of C}
    positive, classes : this class against the rest; only these classes
    multiclass : "ovr", each class against the rest, or "joint", one margin between all of them
    average, schedule, stochastic : options of single solvers, see there
    valid : held-out data, as `data`
    listeners : callables that take every event, a dict
    should_stop : called between blocks; anything but None ends the run with the model so far

    Raises
    ------
    UsageError, DataError, InputMissingError, ReadWriteError

    Streams
    -------
    The solvers perceptron, mirror and pegasos learn each row of an iterable of batches (an iterator, a loader, a
    list) once, in order, in memory that the length of the stream does not change. They stop at its end or at max_rows
    (reason "passes"), or after max_seconds ("seconds"). Nothing is proven of rows that are gone: the figures of the
    certificate are None, but for margin_upper, which the steps of a hard margin prove. `classes` names all labels,
    where the first batch may lack some. For pegasos the objective is that of max_rows rows, or else of as many as the
    first batch has. What needs all rows (scale, class_weight="balanced", valid, tol, passes) is refused; the errors
    of the iterable pass unchanged.

    Sources: dual coordinate ascent of the lp-norm perceptron paper (Algorithm 1, appendices B.1, C).
    """
    budget = parse_size(memory)
    classes = check_labels(classes, class_weight)
    options = solver_options(average, schedule, stochastic)
    if is_stream(data):
        for name, given in (("x", x), ("y", y), ("sample_weight", sample_weight), ("valid", valid)):
            if given is not None:
                raise UsageError(f"{name} cannot be used with a stream: its batches hold all there is; leave it out")
        for name, given in (("tol", tol != TOL), ("passes", passes != PASSES)):
            if given:
                raise UsageError(f"{name} cannot end a stream, whose rows pass by once; use max_rows or max_seconds")
        params = {
            "solver": solver, "loss": loss, "width": width, "C": C, "norm": norm, "bias": bias, "scale": scale,
            "class_weight": class_weight, "classes": classes, "positive": positive, "multiclass": multiclass,
            "average": average, "schedule": schedule, "stochastic": stochastic, "max_rows": max_rows,
        }  # fmt: skip
        if epsilon:
            raise UsageError("epsilon belongs to --loss interpolate, which needs all rows; leave it out of a stream")
        check_options(1.0, TOL, PASSES, max_seconds, seed, bias, scale, multiclass, None)
        return train_stream(data, params, max_seconds, History(listeners), should_stop)
    if max_rows is not None:
        raise UsageError("max_rows ends a stream of batches; files and arrays are read passes times")
    # those of `auto` depend on the problem, which is known once the data are open
    declared: Solver | type[Solver] = Solver if solver == AUTO else make_solver(solver)
    function = make_loss(declared.default_loss if loss is None else loss, width, number(epsilon, "epsilon"))
    numeric = is_numeric(function)
    cost: Any = C
    if C is None:
        cost = math.inf if numeric else declared.default_C
    values = check_options(cost, tol, passes, max_seconds, seed, bias, scale, multiclass, valid)
    if numeric:
        check_numeric(values, class_weight, positive, classes, multiclass, valid)
    midway = bias == MIDWAY
    if midway and (values != [math.inf] or numeric or multiclass == "joint"):
        raise UsageError(
            "a bias midway lies between the nearest rows of either side, for the hard margin of each class; use --C inf"
            " without --multiclass joint, or give the bias as a number"
        )
    column = 0.0 if midway else float(bias or 0.0)  # the constant column

    with ExitStack() as stack:
        source = stack.enter_context(opened(data, x=x, y=y, sample_weight=sample_weight))
        history = History(listeners)
        weights = check_weights(source.sample_weight(), source)
        targets = np.empty(0)
        if numeric:
            target, targets = make_numbers(source, weights)
            weights = np.empty(0)  # they say who is absent, no more
        else:
            target = make_target(source, positive, classes)
        present = class_mass(target.codes, weights, 1 if numeric else len(target.classes), rows=True)
        if not numeric and np.count_nonzero(present) < 2:
            raise DataError(f"{source.name}: fewer than two classes have rows of positive weight; training needs two")
        factors = np.ones((1, 1)) if numeric else class_factors(class_weight, target, weights, source.name)
        p = resolve_p(norm, source.features)
        per_trial = len(target.positive)
        asked = Problem(
            rows=source.rows,
            features=source.features,
            dtype=source.dtype,
            loss=function,
            norm=make_norm(p),
            p=p,
            codes=target.codes,
            positive=np.tile(target.positive, len(values)).astype(np.int64),
            caps=np.repeat(np.array(values), per_trial)[:, None] * factors,
            weights=weights,
            trials=len(values),
            tol=tol,
            seed=seed,
            present=int(present.sum()),
            joint=multiclass == "joint" and per_trial > 1,
            options=options,
            targets=targets,
            budget=spendable(budget),
            entries=source.nnz,
            largest_target=float(np.abs(targets).max(initial=0.0)),
        )
        costs = asked.caps[np.isfinite(asked.caps)]
        if costs.size and float(costs.max()) > LARGEST_C / source.rows:
            raise UsageError(f"C = {max(values):g} is too large to compute with; use C = inf, the hard margin")
        held_out = None if valid is None else _held_out(stack, valid, x, y, source)

        # weights of the certificate event and the model are further copies of (K, d+1)
        vectors = 3 * asked.count + 4
        own = target.codes.nbytes + weights.nbytes + targets.nbytes
        own += 8 * vectors * (source.features + 1)

        def problem_for(method: Solver) -> Problem:
            own_loss = make_loss(method.default_loss, width) if loss is None else function
            own_caps = np.full_like(asked.caps, method.default_C) * factors if C is None and not numeric else asked.caps
            return replace(asked, loss=own_loss, caps=own_caps)

        def plan_of(rows: Source, method: Solver, problem: Problem, counted: int) -> Plan:
            return make_plan(rows, budget, counted, lambda m, size: method.scratch(problem, m, size, source.sparse))

        def check_room(method: Solver, problem: Problem) -> None:
            plan_of(source, method, problem, method.memory(problem) + own)

        # before anything large is read or allocated
        names = candidates(asked) if solver == AUTO else [solver]
        method, problem = choose(names, problem_for, check_room)
        solver, loss = method.name, method.default_loss if loss is None else loss
        if C is None and not numeric:
            values = [method.default_C]
        counted = method.memory(problem) + own
        working: Source = source
        scaling = None
        if scale != "none":
            scaling = Scaling(source, scale, target.codes, weights, budget - counted)
            working = scaling.scaled(source)
        validator = None
        if held_out is not None:
            codes = encode(held_out, target)
            rows = held_out if scaling is None else scaling.scaled(held_out)
            validator = Validator(rows, codes, problem.positive, problem.trials, (budget - counted) // 4)
            counted += validator.memory_bytes
        plan = plan_of(working, method, problem, counted)

        params = plain_params({
            "solver": solver, "loss": loss_text(loss), "width": width, "epsilon": epsilon,
            "C": values if len(values) > 1 else values[0], "norm": norm, "p": p, "tol": tol,
            "passes": passes, "max_seconds": max_seconds, "memory": memory,
            "seed": seed, "bias": bias, "scale": scale, "positive": positive, "multiclass": multiclass,
            "class_weight": class_weight, "average": average, "schedule": schedule, "stochastic": stochastic,
            "classes": classes,
        })  # fmt: skip
        history.publish(
            {
                "schema": SCHEMA, "event": "run_start", "version": streammargin.__version__, "params": params,
                "data": {
                    "path": source.name, "rows": source.rows, "features": source.features, "nnz": source.nnz,
                    "fingerprint": source.fingerprint(), "classes": [str(c) for c in target.classes.tolist()],
                },
                "plan": {"block_rows": plan.block_rows, "blocks": plan.blocks, "memory_bytes": plan.memory_bytes},
            }
        )  # fmt: skip
        started = time.perf_counter()
        reader = BlockReader(working, plan.bounds, plan.buffers, plan.resident)
        training = Run(
            problem, method, reader, column, Limits(tol, passes, max_seconds, 1 + midway), validator, history,
            should_stop, publish=bool(history.listeners), midway=midway, scaling=scaling,
        )  # fmt: skip
        outcome = run(training)
        seconds = time.perf_counter() - started
    trial, certificate = _choose(problem, outcome)
    chosen = slice(trial * per_trial, (trial + 1) * per_trial)
    converged = certificate["converged"] = bool(outcome.converged[chosen].all())
    center, factor = (0.0, 1.0) if scaling is None else (scaling.center, scaling.factor)
    coef = outcome.w[chosen, :-1] * factor
    constant = outcome.w[chosen, -1] * column
    if outcome.midway is not None:
        constant = outcome.midway[chosen]
    elif midway:
        LOG.warning("stopped before the bias midway was found: it is 0", extra={"code": "bias"})
    intercept = constant - (coef * center).sum(axis=1)
    header = {
        **params, "C": values[trial], "rows": problem.rows, "features": problem.features, "reason": outcome.reason,
        "converged": converged, "passes_done": outcome.passes, "seconds": seconds,
        "positive": target.rest, "certificate": certificate,
    }  # fmt: skip
    model = LinearModel(coef, intercept, target.classes, header)
    end = {
        "event": "run_end", "status": "ok", "converged": converged, "reason": outcome.reason,
        "passes": outcome.passes, "seconds": seconds, "exit_code": 0, "model": None,
        "C": values[trial] if len(values) > 1 else None,
        **{key: certificate[key] for key in ("gap", "margin_gap", "residual", "valid_error")},
    }  # fmt: skip
    history.events.append(end)
    return TrainResult(model, certificate, history.events, outcome.reason, converged, outcome.passes, seconds, end)


def _held_out(stack: ExitStack, valid: Any, x: str | None, y: Any, source: Source) -> Source:
    # labels in a file of their own are those of the rows of `source` alone
    names = y if isinstance(y, str) and not (":" in y or y.endswith(".npy")) else None
    held_out = stack.enter_context(opened(valid, x=x, y=names))
    if held_out.features != source.features:
        raise DataError(
            f"{held_out.name} has {held_out.features} columns but {source.name} has {source.features}; "
            f"convert both with the same --features"
        )
    return held_out


def _choose(problem: Problem, outcome: Outcome) -> tuple[int, dict[str, Any]]:
    """The value of C with the smallest held-out error (the smallest such C), and its exact figures."""
    if outcome.figures is None:
        return 0, dict.fromkeys(FIGURES)
    errors = outcome.valid_errors
    trial = 0
    if errors is not None and problem.trials > 1:
        cost = problem.caps[:: problem.per_trial].max(axis=1)
        trial = int(np.lexsort((cost, errors))[0])
    error = None if errors is None else float(errors[trial])
    return trial, certificate_event(problem, trial, outcome.figures, outcome.wrong, error)
