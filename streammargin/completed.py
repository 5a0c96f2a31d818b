"""Recompute the figures of a completed matrix from its factors and the ratings, by NumPy alone.

The objective is ||U V^T||_* + C sum_e l(u_i.v_j), with the trace norm. The readers of tables find the ratings; nothing
here calls what trains.
"""

from __future__ import annotations

import json
import math
import os
import re
import zipfile
from contextlib import ExitStack
from typing import Any

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import reading
from streammargin.verification import BLUR, Check, compare


def is_completion(path: str) -> bool:
    """Whether this is the model file of a completed matrix."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"left.npy", "right.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def loss_of(word: str, x: np.ndarray, ratings: np.ndarray) -> np.ndarray:
    """The loss (m,) of values x (m,) of the matrix. ValueError for a word without a formula here."""
    name, _, rest = word.partition(":")
    if name == "absolute_error":
        return np.abs(x - ratings)
    if name == "squared_error":
        return (x - ratings) ** 2 / 2.0
    if name != "hinge":
        raise ValueError(word)
    levels, _, at = re.sub("levels=", "", rest).partition(",at=")
    total = np.zeros(x.size)
    for level, place in zip(levels.split(","), at.split(","), strict=True):
        sign = np.where(ratings > float(level), 1.0, -1.0)
        total += np.maximum(0.0, 1.0 - sign * (x - float(place)))
    return total


def rating_of(word: str, x: np.ndarray, levels: list[float]) -> np.ndarray:
    """The ratings (m,) that values of the matrix stand for."""
    name, _, rest = word.partition(":")
    if name != "hinge":
        return x
    places = [float(place) for place in rest.partition(",at=")[2].split(",")]
    return np.array(levels)[np.sum(x[:, None] > places, axis=1)]


def trace_norm(left: np.ndarray, right: np.ndarray) -> float:
    """The sum of the singular values of left right^T."""
    if not left.size:
        return 0.0
    (_, up), (_, down) = np.linalg.qr(left), np.linalg.qr(right)
    return math.fsum(np.linalg.svd(up @ down.T, compute_uv=False))


class Sums:
    """Sums over ratings, at the factors of a model."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.word, self.levels = header["loss"], header["levels"]
        self.left, self.right = arrays["left"], arrays["right"]
        from streammargin.tables.ratings.names import Names

        texts = (arrays[name].tobytes().decode().split("\0") for name in ("row_names", "column_names"))
        self.rows, self.columns = (Names(noun, names) for noun, names in zip(("row", "column"), texts, strict=True))
        self.losses: list[float] = []
        self.count, self.squares, self.slip = 0, 0.0, 0.0

    def add(self, entries: Any) -> None:
        """Add all of these."""
        with ExitStack() as stack:
            for part in entries.parts(stack):
                assert part.values is not None
                i, j = (names.known(of, entries.name) for names, of in
                        ((self.rows, part.rows), (self.columns, part.columns)))  # fmt: skip
                x = np.sum(self.left[i] * self.right[j], axis=1)
                size = np.sum(np.abs(self.left[i] * self.right[j]), axis=1) + np.abs(part.values)
                self.losses.append(math.fsum(loss_of(self.word, x, part.values)))
                self.slip += BLUR * float(size @ (1.0 + np.abs(x - part.values)))
                apart = rating_of(self.word, x, self.levels) - part.values
                self.squares += float(apart @ apart)
                self.count += x.size


def verify_ratings(
    model: str, data: Any, valid: Any = None, columns: Any = None, y: str | None = None, memory: int = 256 << 20
) -> list[Check]:  # fmt: skip
    """Recompute the figures of a saved model on its ratings. valid: the held-out ones, for their error.

    Raises InputMissingError, DataError, UsageError.
    """
    from streammargin.tables.ratings.entries import Entries

    with reading(os.fspath(model), "is not a model, or damaged", "complete the matrix again"):
        with np.load(model, allow_pickle=False) as file:
            arrays = dict(file)
        header = json.loads(str(arrays["header"]))
        known = header["certificate"]
        if known["primal"] is None:
            raise UsageError(f"{model} stopped early, so nothing was certified; complete the matrix for longer")
        like = header.get("names") or ()
        sums = Sums(header, arrays)
        sums.add(Entries(data, columns, y, memory, like=like))
        if not sums.count:
            raise DataError(f"{data} has no rating; check the input")
        norm, losses = trace_norm(sums.left, sums.right), math.fsum(sums.losses)
        checks = [
            compare("ratings", header["rows"], sums.count),
            Check("trace norm", None, norm, None),
            Check("loss", None, losses, None),
            compare("primal", known["primal"], norm + header["C"] * losses, header["C"] * sums.slip),
        ]
        dual, gap = known["dual"], known["gap"]
        apart, largest = norm + header["C"] * losses - dual, max(abs(dual), abs(known["primal"]))
        checks.append(compare("gap", gap, apart / largest if apart else 0.0, 1e-9 + BLUR * sums.count))
        if valid is not None:
            if known["valid_error"] is None:
                raise UsageError(f"{model} was trained without held-out ratings; leave `valid` out")
            held_out = Sums(header, arrays)
            held_out.add(Entries(valid, columns, y, memory, like=like))
            found = math.sqrt(held_out.squares / max(1, held_out.count))
            checks.append(compare("valid error", known["valid_error"], found, 1e-9))
        return checks
