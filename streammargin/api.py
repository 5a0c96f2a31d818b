"""streammargin.train: the main job as one call."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import streammargin
from streammargin.data.base import Source
from streammargin.data.open import open_source, opened
from streammargin.data.scaled import ScaledSource
from streammargin.driver.events import SCHEMA, History, Listener
from streammargin.driver.plan import make_plan, parse_size
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.run import Limits, Outcome, certificate_event, run
from streammargin.driver.setup import check_weights, class_factors, encode, make_target, scaled
from streammargin.driver.validate import Validator
from streammargin.errors import DataError, UsageError
from streammargin.model.linear import LinearModel
from streammargin.solvers.base import Options, Problem
from streammargin.solvers.registry import make_solver
from streammargin.specs.losses import make_loss
from streammargin.specs.norms import make_norm, resolve_p


@dataclass
class TrainResult:
    """What `train` returns.

    model : LinearModel
    certificate : dict with primal, dual, gap, margin_lower, margin_upper, margin_gap, mistakes,
        train_error, valid_error, per_class, converged; exact, for the weights in `model`. The figures
        are None when a signal ended the run.
    history : list of event dicts
    reason : tolerance | passes | seconds | signal | not_separable
    """

    model: LinearModel
    certificate: dict[str, Any]
    history: list[dict[str, Any]]
    reason: str
    converged: bool
    passes: int
    seconds: float
    run_end: dict[str, Any] = field(repr=False, default_factory=dict)


def train(
    data: Any,
    *,
    x: str | None = None,
    y: Any = None,
    sample_weight: Any = None,
    solver: str = "sdca",
    loss: str | None = None,
    width: float = 1.0,
    C: float | Sequence[float] | None = None,
    norm: float | str = 2,
    tol: float = 1e-3,
    passes: int = 1000,
    max_seconds: float | None = None,
    memory: str | int = "1G",
    seed: int = 0,
    bias: float | None = None,
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
    data : path, list of paths (shards), (X, y), or Source
        Rows (n, d). y: dataset name, FILE:NAME, or array (n,) of labels; x: dataset or group of rows.
    sample_weight : dataset name or array (n,), optional
        s_i >= 0, multiplies C for its row; 0 means that the row is absent.
    solver : see `streammargin train --help`
    loss, width : hinge, squared_hinge, smooth_hinge (of this width) or logistic; default: the solver's, hinge
    C : float, math.inf (hard margin), or several, trained from one read and chosen on `valid`; default 1,
        or inf for a solver that knows the hard margin alone
    norm : p in (1, 2], or "sparse" for 1 + 1/ln d
    tol : relative duality gap; for the hard margin, relative margin gap
    passes, max_seconds : other reasons to stop
    memory : bytes, or text like "512M": bounds everything that grows with the data
    bias : value of a constant, regularised column; None for no such column
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

    Sources: dual coordinate ascent of the lp-norm perceptron paper (Algorithm 1, appendices B.1, C).
    """
    method = make_solver(solver)
    C = method.default_C if C is None else C
    loss = method.default_loss if loss is None else loss
    values = _check_options(C, tol, passes, max_seconds, seed, bias, scale, multiclass, valid)
    function = make_loss(loss, width)
    budget = parse_size(memory)

    with opened(data, x=x, y=y, sample_weight=sample_weight) as source:
        history = History(listeners)
        target = make_target(source, positive, classes)
        weights = check_weights(source.sample_weight(), source)
        present = target.codes >= 0
        if weights.size:
            present &= weights > 0.0
        if len(np.unique(target.codes[present])) < 2:
            raise DataError(f"{source.name}: fewer than two classes have rows of positive weight; training needs two")
        factors = class_factors(class_weight, target, weights, source.name)
        p = resolve_p(norm, source.features)
        per_trial = len(target.positive)
        problem = Problem(
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
            present=int(np.count_nonzero(present)),
            joint=multiclass == "joint" and per_trial > 1,
            options=Options(average, schedule, stochastic),
        )
        del present
        method.check(problem)
        held_out = None if valid is None else _open_valid(valid, x, y, source)

        # weights of the certificate event and the model are further copies of (K, d+1)
        vectors = 3 * problem.count + 4
        counted = method.memory(problem) + target.codes.nbytes + weights.nbytes + 8 * vectors * (source.features + 1)
        working: Source = source
        center, factor = np.zeros(source.features), np.ones(source.features)
        if scale != "none":
            working = scaled(source, scale, target.codes, weights, budget - counted)
            center, factor = working.center, working.factor
        validator = None
        if held_out is not None:
            codes = encode(held_out, target)
            rows: Source = held_out if scale == "none" else ScaledSource(held_out, center, factor)
            validator = Validator(rows, codes, problem.positive, problem.trials, bias or 0.0, (budget - counted) // 4)
            counted += validator.memory_bytes
        plan = make_plan(working, budget, counted)

        params = {
            "solver": solver, "loss": loss, "width": width, "C": values if len(values) > 1 else values[0],
            "norm": norm, "p": p, "tol": tol, "passes": passes, "max_seconds": max_seconds, "memory": memory,
            "seed": seed, "bias": bias, "scale": scale, "positive": positive, "multiclass": multiclass,
            "class_weight": class_weight if class_weight is None or isinstance(class_weight, str)
            else {str(k): float(v) for k, v in class_weight.items()},
            "average": average, "schedule": schedule, "stochastic": stochastic,
            "classes": None if classes is None else [str(c) for c in classes],
        }  # fmt: skip
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
        outcome = run(
            problem, method, reader, bias or 0.0, Limits(tol, passes, max_seconds), validator, history,
            should_stop, progress=bool(history.listeners),
        )  # fmt: skip
        seconds = time.perf_counter() - started
        if held_out is not None and held_out is not valid:
            held_out.close()
    trial, certificate = _choose(problem, outcome)
    certificate["converged"] = outcome.converged
    chosen = slice(trial * per_trial, (trial + 1) * per_trial)
    coef = outcome.w[chosen, :-1] * factor
    intercept = outcome.w[chosen, -1] * (bias or 0.0) - coef @ center
    header = {
        **params, "C": values[trial], "rows": problem.rows, "features": problem.features, "reason": outcome.reason,
        "converged": outcome.converged, "passes_done": outcome.passes, "seconds": seconds,
        "positive": target.rest, "certificate": certificate,
    }  # fmt: skip
    model = LinearModel(coef, intercept, target.classes, header)
    end = {
        "event": "run_end", "status": "ok", "converged": outcome.converged, "reason": outcome.reason,
        "passes": outcome.passes, "seconds": seconds, "exit_code": 0, "model": None,
    }  # fmt: skip
    history.events.append(end)
    return TrainResult(
        model, certificate, history.events, outcome.reason, outcome.converged, outcome.passes, seconds, end
    )


def _check_options(
    C: float | Sequence[float], tol: float, passes: int, max_seconds: float | None, seed: int, bias: float | None,
    scale: str, multiclass: str, valid: Any,
) -> list[float]:  # fmt: skip
    given = C if isinstance(C, (Sequence, np.ndarray)) and not isinstance(C, str) else [C]
    values = [_number(c, "C") for c in given]
    if not values or not all(c > 0.0 for c in values):
        raise UsageError(f"C must be positive (or inf for the hard margin), not {C!r}")
    if len(values) > 1 and valid is None:
        raise UsageError("several values of C need held-out data to choose among them; give valid (--valid DATA)")
    if len(values) > 1 and math.inf in values:
        raise UsageError("C = inf cannot be mixed with finite values of C; train the hard margin by itself")
    if not _number(tol, "tol") >= 0.0:
        raise UsageError(f"tol must be a number >= 0, not {tol!r}")
    if not isinstance(passes, (int, np.integer)) or passes < 1:
        raise UsageError(f"passes must be a whole number and at least 1, not {passes!r}")
    if max_seconds is not None and not _number(max_seconds, "max_seconds") > 0.0:
        raise UsageError(f"max_seconds must be positive, not {max_seconds!r}")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"seed must be a whole number and >= 0, not {seed!r}")
    if bias is not None and not (math.isfinite(_number(bias, "bias")) and bias > 0.0):
        raise UsageError(f"bias must be a positive number (leave it out for no constant column), not {bias!r}")
    if scale not in ("none", "maxabs", "std"):
        raise UsageError(f"scale must be none, maxabs or std, not {scale!r}")
    if multiclass not in ("ovr", "joint"):
        raise UsageError(f"multiclass must be ovr or joint, not {multiclass!r}")
    return values


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number, not {value!r}") from None


def _open_valid(valid: Any, x: str | None, y: Any, source: Source) -> Source:
    names = y if isinstance(y, str) else None
    held_out = open_source(valid, x=x, y=names)
    if held_out.features != source.features:
        raise DataError(
            f"{held_out.name} has {held_out.features} columns but {source.name} has {source.features}; "
            f"convert both with the same --features"
        )
    return held_out


def _choose(problem: Problem, outcome: Outcome) -> tuple[int, dict[str, Any]]:
    """The value of C with the smallest held-out error (the smallest such C), and its exact figures."""
    if outcome.figures is None:
        keys = ("primal", "dual", "gap", "margin_lower", "margin_upper", "margin_gap", "mistakes", "train_error",
                "valid_error", "per_class")  # fmt: skip
        return 0, dict.fromkeys(keys)
    errors = outcome.valid_errors
    trial = 0
    if errors is not None and problem.trials > 1:
        cost = problem.caps[:: problem.per_trial].max(axis=1)
        trial = int(np.lexsort((cost, errors))[0])
    error = None if errors is None else float(errors[trial])
    return trial, certificate_event(problem, trial, outcome.figures, outcome.wrong, error)
