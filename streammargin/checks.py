"""The options of a training: checked, and as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streammargin.driver.midway import MIDWAY
from streammargin.errors import UsageError
from streammargin.solvers.base import Options

TOL, PASSES = 1e-3, 1000
LARGEST_C = 1e200  # times the rows: sums of losses, and their squares, must be numbers


def check_options(
    C: float | Sequence[float], tol: float, passes: int, max_seconds: float | None, seed: int,
    bias: float | str | None, scale: str, multiclass: str, valid: Any,
) -> list[float]:  # fmt: skip
    several = np.ndim(C) > 0 if isinstance(C, np.ndarray) else isinstance(C, Sequence) and not isinstance(C, str)
    given: Any = C if several else [C]
    values = [number(c, "C") for c in given]
    if not values or not all(c > 0.0 for c in values):
        raise UsageError(f"C must be positive (or inf for the hard margin), not {C!r}")
    if len(values) > 1 and valid is None:
        raise UsageError("several values of C need held-out data to choose among them; give valid (--valid DATA)")
    if len(values) > 1 and math.inf in values:
        raise UsageError("C = inf cannot be mixed with finite values of C; train the hard margin by itself")
    if not 0.0 <= number(tol, "tol") < math.inf:
        raise UsageError(f"tol must be a number >= 0, not {tol!r}")
    if not isinstance(passes, (int, np.integer)) or passes < 1:
        raise UsageError(f"passes must be a whole number and at least 1, not {passes!r}")
    if max_seconds is not None and not number(max_seconds, "max_seconds") > 0.0:
        raise UsageError(f"max_seconds must be positive, not {max_seconds!r}")
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"seed must be a whole number and >= 0, not {seed!r}")
    if isinstance(bias, str):
        if bias != MIDWAY:
            raise UsageError(f"bias must be a positive number or the word {MIDWAY}, not {bias!r}")
    elif bias is not None and not (math.isfinite(number(bias, "bias")) and bias > 0.0):
        raise UsageError(f"bias must be a positive number (leave it out for no constant column), not {bias!r}")
    if scale not in ("none", "maxabs", "std"):
        raise UsageError(f"scale must be none, maxabs or std, not {scale!r}")
    if multiclass not in ("ovr", "joint"):
        raise UsageError(f"multiclass must be ovr or joint, not {multiclass!r}")
    return values


def check_numeric(
    values: list[float], class_weight: Any, positive: Any, classes: Any, multiclass: str, valid: Any
) -> None:
    """UsageError for options of classes where the labels are numbers."""
    if values != [math.inf]:
        raise UsageError("to interpolate is to meet every target, C = inf; leave C out, or give epsilon")
    given = {"class_weight": class_weight, "positive": positive, "classes": classes, "valid": valid}
    given["multiclass"] = None if multiclass == "ovr" else multiclass
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} is for classes, and the loss interpolate takes numbers; leave it out")


def check_labels(classes: Any, class_weight: Any) -> list[Any] | None:
    """The classes as a list. UsageError unless they are labels, and class_weight a word or factors, or None."""
    labels = None
    if classes is not None:
        labels = [] if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable) else list(classes)
        if not labels:
            raise UsageError(f"classes must be a list of labels, not {classes!r}")
        for label in labels:
            if label is None or np.ndim(label) > 0 or label != label:  # nan
                raise UsageError(f"classes must be labels, and {label!r} is none")
    if class_weight is not None and not isinstance(class_weight, str):
        if not isinstance(class_weight, Mapping):
            raise UsageError(f"class_weight must be 'balanced' or {{label: factor}}, not {class_weight!r}")
        for label, factor in class_weight.items():
            number(factor, f"the class weight of {label!r}")
    return labels


def solver_options(average: bool | None, schedule: str | None, stochastic: bool | None) -> Options:
    """The options of single solvers. UsageError for a value of another type."""
    for name, value in (("average", average), ("stochastic", stochastic)):
        if value is not None and not isinstance(value, (bool, np.bool_)):
            raise UsageError(f"{name} must be True, False or None, not {value!r}")
    return Options(average, schedule, stochastic)


def number(value: Any, name: str) -> float:
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a number, not {value!r}") from None


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    factors, classes = params["class_weight"], params["classes"]
    return {
        **params,
        "class_weight": {str(k): float(v) for k, v in factors.items()} if isinstance(factors, Mapping) else factors,
        "classes": None if classes is None else [str(c) for c in classes],
    }
