"""From options and a source to a Problem: classes, weights of rows, scaling of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streammargin.data.base import Source
from streammargin.data.labels import census
from streammargin.data.scaled import ScaledSource
from streammargin.driver.plan import least_budget
from streammargin.driver.prefetch import read_blocks
from streammargin.errors import DataError, UsageError
from streammargin.specs.blocks import DenseBlock


@dataclass(frozen=True)
class Target:
    """What is to be told apart: classes (original values), codes (n,) int16 with -1 for absent rows."""

    classes: np.ndarray
    codes: np.ndarray
    positive: np.ndarray
    rest: Any = None  # the label that is set against all others, where one was named


def find_label(value: Any, classes: np.ndarray, name: str) -> int:
    """Position of a label given by the user (perhaps as text) among the classes. UsageError if absent."""
    for position, label in enumerate(classes.tolist()):
        if label == value or str(label) == str(value):
            return position
        if isinstance(label, (int, float)) and not isinstance(value, bool):
            try:
                if float(value) == float(label):
                    return position
            except (TypeError, ValueError):
                continue
    listed = ", ".join(map(str, classes[:20].tolist()))
    raise UsageError(f"there is no label {value!r} in {name}; its labels are {listed}")


def make_target(source: Source, positive: Any = None, only: Sequence[Any] | None = None) -> Target:
    """One read of the labels; `positive` sets one class against the rest, `only` keeps these classes.

    Raises DataError when fewer than two classes remain, UsageError for a label that does not occur.
    """
    classes, codes, _ = census(source.labels(), source.rows, source.name)
    if only is not None:
        kept = sorted({find_label(value, classes, source.name) for value in only})
        new_code = np.full(len(classes), -1, np.int16)
        new_code[kept] = np.arange(len(kept), dtype=np.int16)
        codes, classes = new_code[codes], classes[kept]
    if positive is not None:
        chosen = find_label(positive, classes, source.name)
        label = classes[chosen].item()
        np.putmask(codes, codes >= 0, (codes == chosen).astype(np.int16))
        if not np.any(codes == 0):
            raise DataError(f"{source.name}: every row has the label {label}; training needs two classes")
        return Target(np.array([f"not {label}", str(label)]), codes, np.array([1]), label)
    if len(classes) < 2:
        raise DataError(
            f"{source.name}: all {source.rows} rows have the label {classes[0]}; training needs two classes"
            " (another dataset of labels can be named with --y)"
        )
    return Target(classes, codes, np.array([1]) if len(classes) == 2 else np.arange(len(classes)))


def encode(source: Source, target: Target) -> np.ndarray:
    """Codes (n,) int16 of a held-out source; labels that were not trained on count as absent."""
    classes, codes, _ = census(source.labels(), source.rows, source.name)
    if target.rest is not None:
        return np.array([_same(label, target.rest) for label in classes.tolist()], np.int16)[codes]
    known = {str(label): k for k, label in enumerate(target.classes.tolist())}
    return np.array([known.get(str(label), -1) for label in classes.tolist()], np.int16)[codes]


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or str(one) == str(other))


def check_weights(weights: np.ndarray | None, source: Source) -> np.ndarray:
    """Sample weights (n,) float64, or (0,) for none. DataError for a negative or missing weight."""
    if weights is None:
        return np.empty(0)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise DataError(
            f"{source.name}: the sample weight of row {bad[0]} is {weights[bad[0]]}; weights must be finite and >= 0"
        )
    return weights


def class_factors(
    class_weight: str | Mapping[Any, float] | None, target: Target, weights: np.ndarray, name: str
) -> np.ndarray:
    """Factor of C for each class, (classes,) float64; "balanced" is n / (classes * weight of the class)."""
    size = len(target.classes)
    factors = np.ones(size)
    if class_weight is None:
        return factors
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise UsageError(f"class_weight must be 'balanced' or LABEL=W,..., not {class_weight!r}")
        present = target.codes >= 0
        mass = np.bincount(target.codes[present], weights[present] if weights.size else None, minlength=size)
        return np.where(mass > 0.0, mass.sum() / (size * np.maximum(mass, 1e-300)), 1.0)
    for label, factor in class_weight.items():
        if not (math.isfinite(factor) and factor > 0.0):
            raise UsageError(f"the class weight of {label!r} must be a positive number, not {factor!r}")
        if target.rest is not None:
            factors[1 if _same(label, target.rest) else 0] = factor
        else:
            factors[find_label(label, target.classes, name)] = factor
    return factors


def scaled(source: Source, kind: str, codes: np.ndarray, weights: np.ndarray, memory: int) -> ScaledSource:
    """One pass over the columns of the present rows: x / max|x|, or (x - mean) / standard deviation.

    Sparse columns are divided only, never centred. A constant column keeps its scale. The pass reads
    within `memory` bytes, or the least that can be read in.
    """
    from streammargin.kernels.columns import dense_columns, sparse_columns

    d = source.features
    largest, total, squares, shift = (np.zeros(d) for _ in range(4))
    for start, stop, block in read_blocks(source, max(memory, least_budget(source))):
        here = weights[start:stop] if weights.size else weights
        if isinstance(block, DenseBlock):
            if start == 0:  # sums about a typical row do not cancel
                shift[:] = block.X[0]
            dense_columns(block.X, codes[start:stop], here, shift, largest, total, squares)
        else:
            sparse_columns(block.data, block.indices, block.indptr, codes[start:stop], here, largest, total, squares)
    if kind == "maxabs":
        center, spread = np.zeros(d), largest
    else:
        mass = float(weights[codes >= 0].sum()) if weights.size else float(np.count_nonzero(codes >= 0))
        mean = total / mass
        spread = np.sqrt(np.maximum(squares / mass - mean**2, 0.0))
        spread[spread <= 1e-12 * largest] = 0.0
        center = np.zeros(d) if source.sparse else mean + shift
    factor = 1.0 / np.where(spread > 0.0, spread, 1.0)
    return ScaledSource(source, center, factor)
