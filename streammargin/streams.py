"""Training on a stream of batches, which pass by once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import streammargin
from streammargin.checks import PASSES, TOL, check_labels, check_options, plain_params, solver_options
from streammargin.driver.events import SCHEMA, History
from streammargin.driver.stream import Learner, learn_stream
from streammargin.errors import UsageError
from streammargin.model.linear import LinearModel
from streammargin.result import FIGURES, TrainResult


def stream_learner(
    *, solver: str, loss: str | None = None, width: float = 1.0, C: Any = None, norm: float | str = 2,
    bias: float | str | None = None, scale: str = "none", class_weight: Any = None,
    classes: Sequence[Any] | None = None, positive: Any = None, multiclass: str = "ovr",
    average: bool | None = None, schedule: str | None = None, stochastic: bool | None = None, tol: float = TOL,
    max_rows: int | None = None,
) -> Learner:  # fmt: skip
    """What learns from batches with these options of `train`. Raises UsageError for those that need all rows."""
    values = check_options(1.0 if C is None else C, tol, PASSES, None, 0, bias, scale, multiclass, None)
    C = None if C is None else values[0]
    classes = check_labels(classes, class_weight)
    if max_rows is not None and not (isinstance(max_rows, (int, np.integer)) and max_rows >= 1):
        raise UsageError(f"max_rows must be a whole number and at least 1, not {max_rows!r}")
    if isinstance(bias, str):
        raise UsageError(f"bias={bias} needs another read of all rows; give the bias of a stream as a number")
    if scale != "none":
        raise UsageError(f"scale={scale} needs all rows before the first step; scale the batches before they come")
    if isinstance(class_weight, str):
        raise UsageError(f"class_weight={class_weight!r} needs all rows before the first step; give {{label: factor}}")
    return Learner(
        solver, loss=loss, width=width, C=C, norm=norm, bias=bias, class_weight=class_weight, classes=classes,
        positive=positive, joint=multiclass == "joint", options=solver_options(average, schedule, stochastic), tol=tol,
        horizon=max_rows,
    )  # fmt: skip


def stream_header(params: Mapping[str, Any], learner: Learner, reason: str, seconds: float) -> dict[str, Any]:
    """Header of a model that learned from a stream: options, how it ended, and what is known of it."""
    assert learner.problem is not None and learner.target is not None
    certificate = {**dict.fromkeys(FIGURES), "margin_upper": learner.margin_upper(), "converged": False}
    return {
        **plain_params(params), "loss": params["loss"] or learner.solver.default_loss, "C": learner.C,
        "p": learner.problem.p, "rows": learner.rows, "features": learner.features, "reason": reason,
        "converged": False, "passes_done": 1, "seconds": seconds, "positive": learner.target.rest,
        "certificate": certificate,
    }  # fmt: skip


def train_stream(
    batches: Any, params: dict[str, Any], max_seconds: float | None, history: History,
    should_stop: Callable[[], str | None] | None,
) -> TrainResult:  # fmt: skip
    learner = stream_learner(**params)
    params["max_seconds"] = max_seconds

    def announce() -> dict[str, Any]:
        assert learner.target is not None and learner.problem is not None
        return {
            "schema": SCHEMA, "event": "run_start", "version": streammargin.__version__,
            "params": {**plain_params(params), "tol": learner.tol, "p": learner.problem.p},
            "data": {
                "path": "stream", "rows": params["max_rows"], "features": learner.features, "nnz": None,
                "fingerprint": None, "classes": [str(c) for c in learner.target.classes.tolist()],
            },
            "plan": {
                "block_rows": learner.rows, "blocks": 1, "memory_bytes": learner.solver.memory(learner.problem)
            },
        }  # fmt: skip

    reason, seconds = learn_stream(
        batches, learner, params["max_rows"], max_seconds, history, announce, should_stop
    )  # fmt: skip
    header = stream_header(params, learner, reason, seconds)
    end = {
        "event": "run_end", "status": "ok", "converged": False, "reason": reason, "passes": 1, "seconds": seconds,
        "exit_code": 0, "model": None,
    }  # fmt: skip
    history.events.append(end)
    model = LinearModel(*learner.model_parts(), header)
    return TrainResult(model, header["certificate"], history.events, reason, False, 1, seconds, end)
