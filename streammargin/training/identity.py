"""The identity of a training: what must be the same for another process to resume it."""

from __future__ import annotations

import dataclasses
import hashlib
import numbers

import numpy as np

from streammargin.driver.identity import PLAN, machine
from streammargin.driver.labels import LabelReader
from streammargin.driver.plan import Plan
from streammargin.driver.validate import Validator
from streammargin.json_values import to_plain
from streammargin.options.table import MAY_CHANGE
from streammargin.penalties.base import Penalty
from streammargin.penalties.domains import Domain
from streammargin.points.linear import LinearPoint
from streammargin.solvers.problem import Problem
from streammargin.sources.names import packed


def identity(
    params: dict[str, object],
    problem: Problem,
    labels: LabelReader,
    names: np.ndarray | None,
    validator: Validator | None,
    start: LinearPoint | None,
    plan: Plan,
) -> dict[str, object]:
    """Name -> plain value: the options that decide the bits, the labels by what they hold, versions and processor.

    The rows are compared when they are read (sources/watched.py).
    """
    known = _of_labels(labels)
    return {
        **{name: value for name, value in to_plain(params).items() if name not in MAY_CHANGE},
        "rows": problem.rows,
        "features": problem.features,
        "penalty": _held(problem.objective.penalty, str(params["penalty"])),
        "labels": known["labels"],
        "epsilons": known["epsilons"],
        "held-out labels": None if validator is None else _of_labels(validator.labels)["labels"],
        "first weights": None if start is None else _digest(start.w),
        "names of columns": None if names is None else _digest(packed(names)),
        PLAN: hashlib.blake2b(plan.bounds.data, digest_size=8).hexdigest(),
        **machine(),
    }


def _held(penalty: Penalty, word: str) -> str:
    """The word of a penalty, or what its fields hold if that is more than a word shows: arrays, and groups."""
    if isinstance(penalty, Domain):  # of which its arrays are made
        return word
    fields = {field.name: getattr(penalty, field.name) for field in dataclasses.fields(penalty)}
    if all(value is None or isinstance(value, (str, numbers.Real)) for value in fields.values()):
        return word
    arrays = (np.ndarray, list, tuple)
    told = [f"{name}={_digest(np.asarray(v)) if isinstance(v, arrays) else repr(v)}" for name, v in fields.items()]
    return f"{penalty.name}({', '.join(told)})"


def _of_labels(labels: LabelReader) -> dict[str, str]:
    """Digests of the labels of all rows, and of their epsilons, from one read."""
    parts = [hashlib.blake2b(digest_size=8) for _ in range(4)]
    for piece in labels.pieces():
        for part, array in zip(parts, (piece.codes, piece.weights, piece.targets, piece.epsilons), strict=True):
            part.update(np.ascontiguousarray(array).data)
    *first, epsilons = [part.hexdigest() for part in parts]
    return {"labels": " ".join(first), "epsilons": epsilons}


def _digest(*arrays: np.ndarray) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
