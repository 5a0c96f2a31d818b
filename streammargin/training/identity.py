"""The identity of a training: what must be the same for another process to resume it."""

from __future__ import annotations

import hashlib
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np

from streammargin.driver.checkpoint import PLAN
from streammargin.driver.plan import Plan
from streammargin.driver.validate import Validator
from streammargin.json_values import to_plain
from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem
from streammargin.sources.names import packed
from streammargin.version import __version__

MAY_CHANGE = {"passes", "max_seconds", "tol"}


def identity(
    params: dict[str, Any],
    problem: Problem,
    labels: RowLabels,
    names: np.ndarray | None,
    validator: Validator | None,
    plan: Plan,
) -> dict[str, Any]:
    """Name -> plain value: the options that affect the bits, digests of the labels, versions and processor.

    The rows are compared when they are read (sources/watched.py).
    """
    penalty = problem.objective.penalty
    features = ",".join(sorted(name for name, present in llvm.get_host_cpu_features().items() if present))
    return {
        **{name: value for name, value in to_plain(params).items() if name not in MAY_CHANGE},
        "rows": problem.rows,
        "features": problem.features,
        "penalty": repr(penalty) if hasattr(penalty, "groups") else params["penalty"],
        "labels": _digest(labels.codes, labels.weights, labels.targets),
        "held-out labels": None if validator is None else _digest(validator.codes, validator.targets),
        "names of columns": None if names is None else _digest(packed(names)),
        PLAN: hashlib.blake2b(plan.bounds.data, digest_size=8).hexdigest(),
        "streammargin": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "processor": f"{llvm.get_host_cpu_name()} {hashlib.blake2b(features.encode(), digest_size=4).hexdigest()}",
    }


def _digest(*arrays: np.ndarray) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
