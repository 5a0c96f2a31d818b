"""What a saved model says of its training: words of losses and penalties, and held-out rows; without the engine."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import numpy as np

GROUPED = ("group", "sparse_group", "exclusive")
SAME_LOSS = 1e-10  # relative, for rounding: other rows differ by more
APART = ("top", "low", "high", "radius", "power")  # fields of which formulas know nothing


def spelled(word: str) -> tuple[str, Any, dict[str, float]]:
    """(name, last number that a formula takes, all fields by name) of a saved word."""
    name, _, rest = word.partition(":")
    if name in GROUPED:  # the name of a file comes first, which may look like fields
        rest = re.split(r",(?=l1_ratio=[^,]*(?:,power=[^,]*)?$)", rest)[-1] if name != "exclusive" else ""
    found = {key: float(text) for key, text in re.findall(r",(?:(\w+)=)?(-?inf|[\d.e+-]+)(?=,|$)", f",{rest}")}
    return name, ([None] + [found[key] for key in found if key not in APART])[-1], found


def column_of(word: str) -> str | None:
    """The column that the word of a loss names in place of a number, None for a number."""
    name, _, text = word.partition(":")
    if name != "interpolate":
        return None
    with contextlib.suppress(ValueError):
        float(text)
        return None
    return text


def left_out(first: int, count: int, folds: int, seed: int) -> np.ndarray:
    """Which of `count` rows (bool), from row `first` on, a share of 1 / `folds` of all rows leaves out.

    Of each `folds` rows in turn it is the one whose place is the rank of the first row's key, drawn by splitmix64.
    """
    rows = np.arange(first, first + count)
    begun = np.uint64(seed * 1_000_003 * 0x9E3779B97F4A7C15 % (1 << 64))
    keys = (rows // folds * folds + np.arange(folds)[:, None]).astype(np.uint64) + begun
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    keys ^= keys >> np.uint64(31)
    return np.asarray((keys[0] > keys[1:]).sum(axis=0) == rows % folds)


def held_out_rows(rows: int | None, share: Any) -> int | None:
    """How many of these rows a share (folds, seed) of them leaves out; None without a share, or if it is not known."""
    if rows is None or not share or len(share) != 2 or share[0] < 1:  # a forged one
        return None
    folds, seed = share
    return rows // folds + int(left_out(rows - rows % folds, rows % folds, folds, seed).sum())


def are_trained_on(header: dict[str, Any], figures: dict[str, Any]) -> bool | None:
    """Whether judged rows are those of the training, those held out included: as many, with the same mean loss.

    None: they may be, as the loss is not known, but they have as many mistakes; of 0 mistakes this tells nothing.
    """
    certificate, rows, loss = header.get("certificate") or {}, header.get("rows"), header.get("train_loss")
    mistakes, error = certificate.get("mistakes"), certificate.get("valid_error")
    held_out = held_out_rows(rows, (header.get("problem") or {}).get("left_out"))
    if held_out is not None and error is not None and rows:
        if mistakes is None and loss is not None:  # of numbers, whose held-out error is a mean loss
            loss += (error - loss) * held_out / rows
        elif mistakes is not None:
            mistakes, loss = mistakes + round(error * held_out), None
    if (rows, mistakes) != (figures.get("rows"), figures.get("mistakes")):
        return False
    if loss is None or figures.get("loss") is None:
        return None if mistakes else False
    return loss > 0.0 and math.isclose(loss, figures["loss"], rel_tol=SAME_LOSS)


def left(codes: np.ndarray, first: int, share: Any) -> np.ndarray:
    """The codes of rows, from row `first` on, with -2 for those that a share (folds, seed) of them leaves out."""
    return np.where(left_out(first, len(codes), *share), -2, codes) if share else codes


def known_error(header: dict[str, Any]) -> Any:
    """The error of a model on other rows than those of its training, by its header; None without such rows."""
    return None if header["problem"].get("of_folds") else header["certificate"]["valid_error"]
