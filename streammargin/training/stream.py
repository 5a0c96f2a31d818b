"""Training on a stream of batches, each read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streammargin.driver.events import SCHEMA, History
from streammargin.driver.learner import Learner, learn_stream
from streammargin.losses import make_loss
from streammargin.model.linear import model_of
from streammargin.options.table import Options
from streammargin.result import Certificate, TrainResult
from streammargin.version import __version__


def train_stream(
    batches: Any, options: Options, history: History, should_stop: Callable[[], str | None] | None
) -> TrainResult:
    """Learn each row of an iterator of batches (X, y) or (X, y, sample_weight) once, in order."""
    learner = Learner(options)

    def announce() -> dict[str, Any]:
        assert learner.target is not None and learner.problem is not None
        return {
            "schema": SCHEMA, "event": "run_start", "version": __version__,
            "params": {**options.plain(), "bias": learner.column, "p": learner.problem.p},
            "data": {
                "path": "stream", "rows": options.max_rows, "features": learner.features, "nnz": None,
                "fingerprint": None, "classes": [str(c) for c in learner.target.classes.tolist()],
            },
            "plan": {
                "block_rows": learner.rows, "blocks": 1, "memory_bytes": learner.solver.memory(learner.problem)
            },
        }  # fmt: skip

    reason, seconds = learn_stream(
        batches, learner, options.max_rows, options.max_seconds, history, announce, should_stop
    )
    assert learner.target is not None
    header = stream_header(learner, reason, seconds)
    end = {
        "event": "run_end", "status": "ok", "converged": False, "reason": reason, "passes": 1, "seconds": seconds,
        "exit_code": 0, "model": None,
    }  # fmt: skip
    history.publish(end)
    model = model_of(learner.point(), learner.target.classes, header, learner.names)
    return TrainResult(model, Certificate(**header["certificate"]), history.events, reason, False, 1, seconds, end)


def stream_header(learner: Learner, reason: str, seconds: float) -> dict[str, Any]:
    """The header of a model trained on a stream: options, how training ended, certificate."""
    assert learner.problem is not None and learner.target is not None
    options = learner.options
    loss = learner.solver.default_loss if options.loss is None else options.loss
    certificate = Certificate(margin_upper=learner.margin_upper()).to_dict()
    return {
        **options.plain(), "loss": str(make_loss(loss)), "C": learner.C, "bias": learner.column,
        "p": learner.problem.p, "rows": learner.rows, "features": learner.features, "reason": reason,
        "converged": False, "passes_done": 1, "seconds": seconds, "positive": learner.target.rest,
        "certificate": certificate, "problem": None,
    }  # fmt: skip
