"""Recompute the figures of a completed matrix from its factors and the ratings, by NumPy alone.

The objective is ||U V^T||_* + C sum_e l(u_i.v_j), with the trace norm. T is C s_e at the entries, for duals s_e. The
bound is -C sum_e l*(q s_e), for any q with q ||T||_2 <= 1. A dual is the slope of the loss, or that of the model at a
kink. The readers of tables find the ratings; nothing here calls what trains.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from contextlib import ExitStack
from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.files import reading
from streammargin.saved.header import read_saved
from streammargin.verification.verify import BLUR, Check, compare

ENTRIES_AT_ONCE = 1 << 16
LINE_NUMBERS_AT_ONCE = 1 << 20  # of dense lines


def is_completion(path: str) -> bool:
    """Whether this is the model file of a completed matrix."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"left.npy", "right.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


class CompletedLoss:
    """The loss of a word: terms whose slopes rise by `width` at their kinks, or half a square.

    ValueError for a word without a formula here. levels, at: of a hinge, else (0,).
    """

    def __init__(self, word: str) -> None:
        self.square, self.width = word == "squared_error", 2.0 if word == "absolute_error" else 1.0
        self.levels = self.at = np.empty(0)
        if word.startswith("hinge:"):
            self.levels, self.at = (
                np.array(one.split(","), float) for one in re.sub("hinge:(levels=)?", "", word).split(",at=")
            )
        elif word not in ("absolute_error", "squared_error"):
            raise ValueError(word)

    def rated(self, x: np.ndarray, ratings: list[float]) -> np.ndarray:
        """The ratings (m,) that values of the matrix stand for; ratings: the different ones of the training."""
        if not self.levels.size:
            return x
        top = max([*ratings, self.levels[-1]])  # of the levels some may have no rating
        return np.append(self.levels, top)[np.sum(x[:, None] > self.at, axis=1)]

    def terms(self, ratings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(z, low): the kinks (m, terms) of the terms, and their slopes on the left."""
        if not self.levels.size:
            return ratings[:, None], np.full((ratings.size, 1), -1.0)
        above = ratings[:, None] > self.levels
        return self.at + np.where(above, 1.0, -1.0), np.where(above, -1.0, 0.0)

    def of(self, x: np.ndarray, ratings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The losses (m,) of values x (m,) of the matrix, and their slopes; at a kink that on its left."""
        z, low = self.terms(ratings)
        apart = x[:, None] - z
        slopes = apart if self.square else np.where(apart > 0.0, low + self.width, low)
        return (slopes * apart).sum(axis=1) / (2.0 if self.square else 1.0), slopes.sum(axis=1)

    def conjugate(self, duals: np.ndarray, ratings: np.ndarray) -> tuple[float, float]:
        """(a, b) if the sum of l*(q s) is at most a q + b q^2, for 0 <= q <= 1; inf if duals s are out of range.

        The slopes of several terms rise one after the other, which is the least sum of duals times kinks.
        """
        if self.square:
            return float(duals @ ratings), 0.5 * float(duals @ duals)
        z, low = self.terms(ratings)
        order, left = np.argsort(z, axis=1), duals - low.sum(axis=1)
        z, low = (np.take_along_axis(one, order, axis=1) for one in (z, low))
        if not np.all((left >= -BLUR) & (left <= self.width * z.shape[1] + BLUR)):
            return math.inf, 0.0
        taken = np.clip(left[:, None] - self.width * np.arange(z.shape[1]), 0.0, self.width)
        return math.fsum(((low + taken) * z).sum(axis=1)), 0.0


def trace_norm(left: np.ndarray, right: np.ndarray) -> float:
    """The sum of the singular values of left right^T."""
    if not left.size:
        return 0.0
    (_, up), (_, down) = np.linalg.qr(left), np.linalg.qr(right)
    return math.fsum(np.linalg.svd(up @ down.T, compute_uv=False))


class Dual:
    """The bound: duals of entries in the order of the longer side of the matrix, whose places there are `lines`."""

    def __init__(self, loss: CompletedLoss, cost: float, proof: tuple[np.ndarray, np.ndarray], short: int) -> None:
        self.loss, self.cost, self.gram = loss, cost, np.zeros((short, short))
        order = np.argsort(proof[0])
        self.known, self.duals = proof[0][order], proof[1][order]
        self.linear, self.square = [0.0], [0.0]
        self.waiting = [np.empty(0, kind) for kind in (np.int64, np.int64, float)]

    def add(
        self, keys: np.ndarray, duals: np.ndarray, ratings: np.ndarray, places: np.ndarray, lines: np.ndarray
    ) -> None:
        """Add entries; keys: their places in the model, duals: slopes there, places: on the shorter side."""
        if self.known.size:
            at = np.minimum(np.searchsorted(self.known, keys), self.known.size - 1)
            duals = np.where(self.known[at] == keys, self.duals[at], duals)
        linear, square = self.loss.conjugate(duals, ratings)
        self.linear.append(linear)
        self.square.append(square)
        now = [np.append(*both) for both in zip(self.waiting, (places, lines, self.cost * duals), strict=True)]
        whole = int(np.searchsorted(now[1], lines[-1]))  # the last line may go on
        self.close(*(one[:whole] for one in now))
        self.waiting = [one[whole:] for one in now]

    def close(self, places: np.ndarray, lines: np.ndarray, duals: np.ndarray) -> None:
        """Add whole lines to T T^T, some at a time."""
        numbers, own = np.unique(lines, return_inverse=True)
        step = max(1, LINE_NUMBERS_AT_ONCE // len(self.gram))
        for low in range(0, len(numbers), step):
            here = slice(*np.searchsorted(own, (low, low + step)))
            T = np.zeros((min(step, len(numbers) - low), len(self.gram)))
            T[own[here] - low, places[here]] = duals[here]
            self.gram += T.T @ T

    def bound(self) -> tuple[float, float]:
        """(the bound at the best q, how much of it rounding may take)."""
        self.close(*self.waiting)
        linear, square = math.fsum(self.linear), math.fsum(self.square)
        if not math.isfinite(linear + square) or not np.isfinite(self.gram).all():
            return -math.inf, 0.0
        rounding = 2.0 * (len(self.gram) + 2.0) ** 2 * np.finfo(float).eps
        norm = math.sqrt(largest(self.gram, rounding))
        most = min(1.0 / norm if norm > 0.0 else math.inf, math.inf if self.loss.square else 1.0)
        q = min(max(-linear / (2.0 * square), 0.0), most) if square > 0.0 else most * (linear < 0.0)
        found = -self.cost * (q * linear + q * q * square) if math.isfinite(q) else 0.0
        return found, 8.0 * rounding * abs(found)


def largest(gram: np.ndarray, rounding: float) -> float:
    """A bound above the largest eigenvalue: s, if the Cholesky factor of s I - gram exists (Rump 2006)."""
    top = float(np.linalg.eigvalsh(gram)[-1])
    for share in 4.0 * rounding * 8.0 ** np.arange(20.0):
        try:
            np.linalg.cholesky(top * (1.0 + share) * np.eye(len(gram)) - gram)
        except np.linalg.LinAlgError:
            continue
        return top * (1.0 + share) * (1.0 + rounding)
    return float(np.trace(gram)) * (1.0 + rounding)


class RatingSums:
    """Sums over ratings, at the factors of a model."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        from streammargin.tables.ratings.entries import Names

        self.loss, self.levels = CompletedLoss(header["loss"]), header["levels"]
        self.left, self.right = arrays["left"], arrays["right"]
        texts = (arrays[name].tobytes().decode().split("\0") for name in ("row_names", "column_names"))
        self.names = Names("row", next(texts)), Names("column", next(texts))
        self.losses: list[float] = []
        self.count, self.squares, self.slip = 0, 0.0, 0.0

    def add(self, i: np.ndarray, j: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Add entries; returns the slopes of the loss at the values of the matrix there."""
        products = self.left[i] * self.right[j]
        x, size = products.sum(axis=1), np.abs(products).sum(axis=1) + np.abs(values)
        losses, slopes = self.loss.of(x, values)
        self.losses.append(math.fsum(losses))
        self.slip += BLUR * float(size @ (1.0 + np.abs(x - values)))
        apart = self.loss.rated(x, self.levels) - values
        self.squares += float(apart @ apart)
        self.count += x.size
        return slopes

    def add_sorted(self, entries: Any, cost: float, proof: tuple[np.ndarray, np.ndarray], memory: int) -> Dual:
        """Add the entries of the training; returns what bounds the objective."""
        from streammargin.arrow import pa
        from streammargin.tables.ratings.sorted import rated

        with ExitStack() as stack:
            ratings = rated(stack, entries, memory // 2)
            short = min(ratings.sides)
            if memory // 2 < 24 * short * short:
                raise UsageError(f"a matrix of {short} x {short} must fit into the memory; use "
                                 f"`memory={(48 * short * short >> 20) + 1}M` or more")  # fmt: skip
            both = zip(self.names, ratings.names, strict=True)
            own = [names.codes(pa.array(of.listed), entries.name) for names, of in both]
            dual, side, start = Dual(self.loss, cost, proof, short), int(ratings.sides[0] > ratings.sides[1]), 0
            source, piece = ratings.source, max(1, ENTRIES_AT_ONCE // (1 + self.left.shape[1] // 16))
            buffer = source.allocate(np.append(np.arange(0, source.rows, piece), source.rows))
            for values in source.labels(piece):
                block: Any = source.read(start, start + len(values), buffer)
                pairs = block.X.astype(np.int64)
                i, j = own[0][pairs[:, 0]], own[1][pairs[:, 1]]
                dual.add(i * len(self.right) + j, self.add(i, j, values), values, pairs[:, side], pairs[:, 1 - side])
                start += len(values)
        return dual


@np.errstate(all="ignore")  # what overflows differs
def verify_ratings(
    model: str, data: Any, valid: Any = None, columns: Any = None, y: str | None = None, memory: int = 256 << 20
) -> list[Check]:  # fmt: skip
    """Recompute the figures of a saved model on its ratings. valid: the held-out ones, for their error.

    Raises InputMissingError, DataError, UsageError.
    """
    from streammargin.tables.ratings.entries import Entries

    with reading(os.fspath(model), "is not a model, or damaged", "complete the matrix again"):
        arrays, header = read_saved(model, 8 * memory)  # one copy, and not several of all numbers in float64
        known = header["certificate"]
        if known["primal"] is None:
            raise UsageError(f"{model} stopped early, so nothing was certified; complete the matrix for longer")
        if "proof.places" not in arrays:
            raise UsageError(f"{model} has no duals, as they took too much memory; give its training more `memory`")
        like = header.get("names") or ()
        sums, proof = RatingSums(header, arrays), (arrays["proof.places"], arrays["proof.duals"])
        entries = Entries(data, columns, y, memory, like=like)
        bound, blur = sums.add_sorted(entries, header["C"], proof, memory).bound()
        norm, losses = trace_norm(sums.left, sums.right), math.fsum(sums.losses)
        primal, slip = norm + header["C"] * losses, header["C"] * sums.slip
        blur, whole = blur + slip, max(abs(known["primal"]), abs(bound), 1e-300)
        least = known["dual"] - blur - 1e-9 * abs(known["primal"])
        gap, most = (primal - bound) / whole, known["gap"] + 2e-9 + 2.0 * blur / whole
        checks = [
            compare("ratings", header["rows"], sums.count),
            Check("trace norm", None, norm, None),
            Check("loss", None, losses, None),
            compare("primal", known["primal"], primal, slip),
            Check("dual", known["dual"], bound, bool(bound >= least)),  # a better bound is one, too
            Check("gap", known["gap"], gap, bool(gap <= most)),
        ]
        if valid is not None:
            if known["valid_error"] is None:
                raise UsageError(f"{model} was trained without held-out ratings; leave `valid` out")
            held_out = RatingSums(header, arrays)
            for pairs, values in Entries(valid, columns, y, memory, like=like).places(held_out.names):
                held_out.add(pairs[:, 0], pairs[:, 1], values)
            found = math.sqrt(held_out.squares / max(1, held_out.count))
            checks.append(compare("valid error", known["valid_error"], found, 1e-9))
        return checks
