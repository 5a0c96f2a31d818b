"""What a training returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from streammargin.model.linear import LinearModel

FIGURES = ("primal", "dual", "gap", "margin_lower", "margin_upper", "margin_gap", "residual", "mistakes",
            "train_error", "valid_error", "per_class")  # fmt: skip


@dataclass
class TrainResult:
    """What `train` returns.

    model : LinearModel
    certificate : dict with primal, dual, gap, margin_lower, margin_upper, margin_gap, residual, mistakes,
        train_error, valid_error, per_class, converged; exact, for the weights in `model`. The figures
        are None when a signal ended the run, or the rows were a stream.
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


def unmet(result: TrainResult) -> str:
    """What to say of numbers that were not interpolated, options marked (see wording.py)."""
    certificate = result.certificate
    return (
        f"stopped by {result.reason} with a row {certificate['residual']:.3g} beyond its tolerance; every interpolator "
        f"has a norm of at least {math.sqrt(2.0 * max(certificate['dual'], 0.0)):.3g}, and rows that contradict each "
        "other have none; raise `passes`, `tol` or `epsilon`"
    )
