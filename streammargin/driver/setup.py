"""Read labels and sample weights of a source, and turn them into classes, targets and factors of C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.matching import Codes, Matcher
from streammargin.sources.base import Source
from streammargin.sources.labels import census, number_values, shifted

PIECE = 1 << 16  # rows of a vector of length n per chunk
COUNTED = 8  # up to this many classes are counted one by one; for two that takes an eighth of the time of bincount
LARGEST_C = 1e200  # of C times the rows: sums of losses, and their squares, must not overflow
LARGEST_NUMBER = 1e50  # of a target
MOST_NUMBERS = 100  # more distinct labels like 0.37, or 1 and 5 without 3, are probably not classes
FEW_ROWS = 50  # nor are this many whole numbers with fewer rows each


@dataclass(frozen=True)
class Target:
    """The classes (original label values) and codes (n,) int16 of the rows, -1 for absent rows.

    positive: the class of sign +1 of each problem. A regression has no classes, and its present rows have the code 0;
    shift: the constant subtracted from its targets.
    """

    classes: np.ndarray
    codes: np.ndarray
    positive: np.ndarray
    rest: Any = None  # the label set against all others, where one was named
    shift: float = 0.0


def make_target(source: Source, positive: Any = None, only: Sequence[Any] | None = None) -> Target:
    """Read the labels once; `positive` sets one class against the rest, `only` keeps these classes.

    Raises DataError where the rows have fewer than two classes, UsageError where `only` names fewer than two or a
    label does not occur.
    """
    classes, codes, _ = census(source.labels(), source.rows, source.name, source.label_place)
    matcher = Matcher(classes, source.name, UsageError)
    if only is not None:
        kept = sorted(set(matcher.find_all(only)))
        if len(kept) < 2:
            raise UsageError(f"`classes` must name at least two labels of {source.name}, not only {classes[kept[0]]}")
        new_code = np.full(len(classes), -1, np.int16)
        new_code[kept] = np.arange(len(kept), dtype=np.int16)
        codes, classes = new_code[codes], classes[kept]
        matcher = Matcher(classes, source.name, UsageError)
    elif positive is None and (what := hardly_classes(classes, source.rows)):
        raise DataError(
            f"{source.name}: its labels are {len(classes)} different {what}, which look like amounts, not classes; "
            "for a regression use `loss=squared_error`, absolute_error, epsilon_insensitive, quantile or interpolate; "
            "for classes list the labels in `classes` or write them as text; for other labels use `y`"
        )
    if positive is not None:
        [chosen] = matcher.find_all([positive])
        label = classes[chosen].item()
        np.putmask(codes, codes >= 0, (codes == chosen).astype(np.int16))
        if not np.any(codes == 0):
            raise DataError(f"{source.name}: every row has the label {label}; training needs two classes")
        return Target(np.array([f"not {label}", str(label)]), codes, np.array([1]), label)
    if len(classes) < 2:
        raise DataError(
            f"{source.name}: {f'all {source.rows} rows have' if source.rows > 1 else 'its only row has'} "
            f"the label {classes[0]}; training needs two classes"
            " (another dataset of labels can be named with `y`)"
        )
    return Target(classes, codes, np.array([1]) if len(classes) == 2 else np.arange(len(classes)))


def hardly_classes(classes: np.ndarray, rows: int) -> str | None:
    """The kind of numbers that sorted labels (k,) are if they look like amounts, None if they look like classes.

    More than MOST_NUMBERS numbers look like amounts, unless they are whole, without a gap, and of FEW_ROWS rows each.
    """
    if classes.dtype.kind not in "iuf" or len(classes) <= MOST_NUMBERS:
        return None
    if np.any(classes != np.trunc(classes)):
        return "real numbers"
    gaps = float(classes[-1]) - float(classes[0]) >= len(classes)
    return "whole numbers" if gaps or rows < FEW_ROWS * len(classes) else None


def make_numbers(source: Source, weights: np.ndarray) -> tuple[Target, np.ndarray]:
    """Read the labels once as numbers: (a Target with one code, targets (n,) float64).

    Rows of weight 0 are absent: code -1, target 0. Raises DataError for a label that is not a finite number.
    """
    targets = np.empty(source.rows)
    start = 0
    for raw in source.labels():
        chunk = number_values(
            raw,
            f"{source.name}: this loss needs numbers as labels, but they are not; name numbers with `y`, or use a loss "
            "for classes, such as `loss=hinge`",
            shifted(source.label_place, start),
        )
        if start + len(chunk) > source.rows:
            raise DataError(f"{source.name}: more labels than the {source.rows} rows")
        targets[start : start + len(chunk)] = chunk
        start += len(chunk)
    if start != source.rows:
        raise DataError(f"{source.name}: {start} labels for {source.rows} rows; X and y must have the same length")
    codes = np.zeros(source.rows, np.int16)
    if weights.size:
        codes[weights <= 0.0] = -1
        targets[weights <= 0.0] = 0.0
    if not np.any(codes == 0):
        raise DataError(f"{source.name}: no row has a positive weight; training needs one")
    return Target(np.empty(0), codes, np.array([0])), targets


def check_numbers(targets: np.ndarray, name: str) -> None:
    """DataError for targets (n,) whose squares, times a C that `check_caps` allows, over- or underflow."""
    largest = max(float(targets.max()), -float(targets.min()))
    if largest > LARGEST_NUMBER or 0.0 < largest < 1.0 / LARGEST_NUMBER:
        raise DataError(
            f"{name}: the largest of its labels, {largest:g}, is too far from 1 to compute with; multiply all of "
            "them by a constant"
        )


def encode(source: Source, target: Target) -> np.ndarray:
    """Codes (n,) int16 of a held-out source; labels that were not trained on count as absent."""
    classes, codes, _ = census(source.labels(), source.rows, source.name, source.label_place)
    found = np.array(Codes(target.classes, target.rest, source.name).of(classes), np.int16)
    if np.all(found < 0):
        listed = ", ".join(map(str, classes[:20].tolist()))
        raise DataError(f"{source.name}: none of its labels ({listed}) was trained on; name others with `y`")
    return found[codes]


def check_weights(weights: np.ndarray | None, source: Source, noun: str = "sample weight") -> np.ndarray:
    """Sample weights, or what the noun says, (n,) float64, (0,) for none. DataError for a negative or missing one."""
    if weights is None:
        return np.empty(0)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        where, row = source.place(int(bad[0]))
        raise DataError(f"{where}: the {noun} of row {row} is {weights[bad[0]]}; {noun}s must be finite and >= 0")
    return weights


def check_caps(costs: Sequence[float], factors: np.ndarray, weights: np.ndarray, rows: int) -> None:
    """UsageError where a finite C, times the weights of a class and a row, over- or underflows.

    Infinite, it would mean a hard margin for the row; 0 would drop the row. factors: of the classes; weights (n,), or
    (0,) for none; a row of weight 0 is absent.
    """
    finite = [C for C in costs if np.inf > C]
    if not finite:
        return
    most, least = max(finite), min(finite)
    with np.errstate(over="ignore", under="ignore"):
        for each in (factors, weights):
            if each.size:
                most = most * each.max()
                least = least * each.min(initial=np.inf, where=each > 0.0)
    if most > LARGEST_C / rows or least == 0.0:
        C, size = (max(finite), "large") if most > LARGEST_C / rows else (min(finite), "small")
        if LARGEST_C / rows < C:
            raise UsageError(f"C = {C:g} is too large to compute with; use C = inf, the hard margin")
        raise UsageError(
            f"C = {C:g} times the weights of classes and rows is too {size} to compute with; divide the weights by a "
            "constant"
        )


def class_mass(codes: np.ndarray, weights: np.ndarray, classes: int, rows: bool = False) -> np.ndarray:
    """Total weight of the present rows of each class, (classes,) float64; with `rows`, their number."""
    mass = np.zeros(classes)
    for start in range(0, len(codes), PIECE):  # no copies of length n
        code, weight = codes[start : start + PIECE], weights[start : start + PIECE]
        if not weights.size and classes <= COUNTED:
            mass += [np.count_nonzero(code == each) for each in range(classes)]
            continue
        present = (code >= 0) & (weight > 0.0) if weights.size else code >= 0
        each = weight[present] if weights.size and not rows else None
        mass += np.bincount(code[present], each, minlength=classes)
    return mass


def class_factors(
    class_weight: str | Mapping[Any, float] | None, target: Target, weights: np.ndarray, name: str
) -> np.ndarray:
    """Factor of C for each class, (classes,) float64; "balanced" is n / (classes * weight of the class).

    A class whose rows all have weight 0 is absent, and is not counted.
    """
    size = len(target.classes)
    factors = np.ones(size)
    if class_weight is None:
        return factors
    if isinstance(class_weight, str):
        mass = class_mass(target.codes, weights, size)
        there = mass > 0.0
        return np.where(there, mass.sum() / (np.count_nonzero(there) * np.where(there, mass, 1.0)), 1.0)
    named = list(target.classes)
    if target.rest is not None:  # the others share one weight, under the name "not LABEL"
        named[1] = target.rest
    factors[Matcher(named, name, UsageError).find_all(class_weight)] = list(class_weight.values())
    return factors
