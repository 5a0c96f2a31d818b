"""Training on a stream of batches, each read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streammargin.driver.events import SCHEMA, History
from streammargin.driver.learner import Learner, learn_stream
from streammargin.driver.stopwatch import Stopwatch
from streammargin.losses import make_loss
from streammargin.model.linear import model_of
from streammargin.options.table import Options
from streammargin.result import Certificate, TrainResult
from streammargin.version import __version__


def train_stream(
    batches: Iterable[object], options: Options, history: History, should_stop: Callable[[], str | None] | None
) -> TrainResult:
    """Learn each row of an iterator of batches (X, y) or (X, y, sample_weight) once, in order."""
    learner = Learner(options)

    def announce() -> dict[str, object]:
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

    watch = Stopwatch()
    reason, seconds = learn_stream(
        iter(batches), learner, options.max_rows, options.max_seconds, history, announce, should_stop
    )
    assert learner.target is not None
    header = stream_header(learner, reason, seconds)
    end = {
        "event": "run_end", "status": "ok", "converged": False, "reason": reason, "passes": 1, "seconds": seconds,
        "compile_seconds": watch.read()["compile_seconds"], "exit_code": 0, "model": None, "C": learner.C,
    }  # fmt: skip
    history.publish(end)
    model = model_of(learner.point(), learner.target.classes, header, learner.names)
    return TrainResult(model, stream_certificate(learner), history.events, reason, False, 1, seconds, end)


def stream_certificate(learner: Learner) -> Certificate:
    """The certificate of a model that learned from a stream."""
    return Certificate(margin_upper=learner.margin_upper())


def stream_header(learner: Learner, reason: str, seconds: float) -> dict[str, object]:
    """Header of a model that learned from a stream: options, how it ended, and what is known of it."""
    assert learner.problem is not None and learner.target is not None
    options = learner.options
    loss = learner.solver.default_loss if options.loss is None else options.loss
    return {
        **options.plain(), "loss": str(make_loss(loss)), "C": learner.C, "bias": learner.column,
        "p": learner.problem.p, "rows": learner.rows, "features": learner.features, "reason": reason,
        "converged": False, "passes_done": 1, "seconds": seconds, "positive": learner.target.rest,
        "certificate": stream_certificate(learner).to_dict(), "problem": None,
    }  # fmt: skip
