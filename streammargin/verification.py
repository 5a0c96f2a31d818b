"""Figures of a saved model, recomputed from its file and from the rows as they are stored, by NumPy and SciPy alone.

Whoever doubts the engine reads this file: it calls nothing that trains, reads or compiles. It opens the model with
NumPy and the rows with h5py, and works in float64, block by block. What was minimised stands in the model: options and
numbers in its JSON header, and the arrays coef (K, d), intercept (K,), classes, caps, center, factor and groups.

The weights are those of the scaled columns, w = coef / factor, and of the constant column of value v:
(intercept - shift + coef . center) / v. The objective is R(w) + sum_i cap_i phi(u_i) with u = y (x.w + b) for classes
and u = x.w + b - y for numbers. At C = inf what counts is the margin min_i u_i / ||w||_p or, of numbers that are to be
met, R(w) and the largest violation (|u| - epsilon)_+.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

from streammargin.errors import DataError, InputMissingError, UsageError

EXACT = 1e-9  # how far two figures may be apart, as a part of them
BLUR = 1e-12  # a score that is a smaller part of |w|.|x| has no sign to rely on
CONVERT = "write X as a dataset or csr_matrix, and y beside it, with: streammargin-data convert IN OUT.h5"
NUMBERS = ("squared_error", "absolute_error", "epsilon_insensitive", "quantile", "interpolate")  # losses of numbers
# fmt: off
LOSSES = {  # phi(u), with the numbers that the header h has
    "hinge": lambda u, h: np.maximum(0.0, 1.0 - u),
    "squared_hinge": lambda u, h: np.maximum(0.0, 1.0 - u) ** 2,
    "smooth_hinge": lambda u, h: np.where(
        u < 1.0 - h["width"], 1.0 - u - h["width"] / 2.0, np.maximum(0.0, 1.0 - u) ** 2 / (2.0 * h["width"])),
    "generalized_hinge": lambda u, h: np.maximum(0.0, np.maximum(1.0 - u, 1.0 - h["slope"] * u)),
    "logistic": lambda u, h: np.logaddexp(0.0, -u),
    "exponential": lambda u, h: np.exp(-u),
    "squared_error": lambda u, h: u**2 / 2.0,
    "absolute_error": lambda u, h: np.abs(u),
    "epsilon_insensitive": lambda u, h: np.maximum(0.0, np.abs(u) - h["epsilon"]),
    "quantile": lambda u, h: np.where(u < 0.0, -h["quantile"] * u, (1.0 - h["quantile"]) * u),
    "interpolate": lambda u, h: np.maximum(0.0, np.abs(u) - h["epsilon"]),
}
PENALTIES = {  # R(w); r: the l1_ratio, p: of the norm, groups: a list of arrays of columns
    "lp": lambda w, r, p, groups: norm(w, p) ** 2 / 2.0,
    "l2": lambda w, r, p, groups: norm(w, 2.0) ** 2 / 2.0,
    "l1": lambda w, r, p, groups: norm(w, 1.0),
    "l2norm": lambda w, r, p, groups: norm(w, 2.0),
    "linf": lambda w, r, p, groups: np.abs(w).max(),
    "elasticnet": lambda w, r, p, groups: r * norm(w, 1.0) + (1.0 - r) * norm(w, 2.0) ** 2 / 2.0,
    "group": lambda w, r, p, groups: (
        r * sum(math.sqrt(len(g)) * norm(w[g], 2.0) for g in groups) + (1.0 - r) * norm(w, 2.0) ** 2 / 2.0),
    "exclusive": lambda w, r, p, groups: sum(norm(w[g], 1.0) ** 2 / 2.0 for g in groups),
}
# fmt: on
RATIO = {"elasticnet": 0.5, "group": 1.0}  # r where the header has none


def norm(w: np.ndarray, p: float) -> float:
    """||w||_p."""
    top = float(np.abs(w).max(initial=0.0))
    return top * float(np.sum((np.abs(w) / top) ** p)) ** (1.0 / p) if 0.0 < top < math.inf else top


def key(label: Any) -> str:
    """One text for all ways to write a label: 1, 1.0, True and "1"."""
    text = isinstance(label, str)
    if not text or (label.isascii() and "_" not in label):
        for kind in (int, float):
            with contextlib.suppress(ValueError, OverflowError):
                if text or kind(label) == label:
                    return str(int(label)) if kind is int else f"{float(label):.17g}"
    return str(label)


@dataclass
class Check:
    """A figure as it was certified and as it is now; agrees: None of one that was not certified."""

    name: str
    certified: float | None
    found: float
    agrees: bool | None
    note: str = ""


@dataclass
class Verified:
    """What came of it. rows: those that count; mean_loss: of these, whatever they weigh, summed over the classes."""

    rows: int
    mean_loss: float
    checks: list[Check]

    @property
    def agrees(self) -> bool:
        """Whether no figure differs."""
        return all(check.agrees is not False for check in self.checks)


class Saved:
    """A model file. Raises InputMissingError, DataError, UsageError for one that cannot be verified."""

    def __init__(self, path: str) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            self.header = h = json.loads(str(arrays["header"]))
            problem = h.get("problem", "unknown")
        except FileNotFoundError as error:
            raise InputMissingError(f"{path}: no such model file") from error
        except Exception as error:  # zip, NumPy and JSON fail in many ways on bytes that are none of theirs
            raise DataError(f"{path} is not a model; train one with: streammargin train DATA -o MODEL") from error
        if problem == "unknown":
            raise DataError(f"{path} does not say what was minimised, as models of today do; train it again")
        if problem is None:
            raise UsageError(f"{path} learned from a stream, of which nothing is certified; train it on a file")
        if h["loss"] not in LOSSES or h["penalty"] not in PENALTIES:
            raise UsageError(f"{path} was trained with {h['loss']}: verify has no formula for a loss of the user's own")
        if h["certificate"]["primal"] is None:
            raise DataError(f"{path} was stopped before anything was certified of its weights; train it for longer")
        self.coef, self.intercept = arrays["coef"].astype(np.float64), arrays["intercept"].astype(np.float64)
        self.classes, self.caps, width = arrays["classes"], arrays["caps"], self.coef.shape[1]
        center, factor = arrays.get("center", np.zeros(width)), arrays.get("factor", np.ones(width))
        self.kind, value = problem["constant"]["kind"], problem["constant"]["value"]
        self.problem, self.numeric, self.hard = problem, h["loss"] in NUMBERS, bool(np.isinf(self.caps).all())
        moved = self.coef * center
        through = problem["shift"] - moved.sum(axis=1)  # the offset of a score (K,) without a constant
        self.sizes = np.abs(self.intercept) + abs(problem["shift"]) + np.abs(moved).sum(axis=1)
        self.constant = self.intercept - through
        self.offset = through if self.kind == "midway" else self.intercept  # a bias midway was found after the proof
        of = arrays.get("groups", np.zeros(0, np.int64))
        groups, w = np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1]), self.coef / factor
        if self.kind == "penalised":
            groups, w = [*groups, np.array([width])], np.column_stack([w, self.constant / value])
        p, r = float(h["p"]), RATIO.get(h["penalty"], 1.0) if h["l1_ratio"] is None else h["l1_ratio"]
        self.penalties = np.array([PENALTIES[h["penalty"]](line, r, p, groups) for line in w])
        # margins are over the length of the weights, a joint one over that of all classes
        self.lengths = np.array([norm(w.ravel() if problem["joint"] else line, p) for line in w])

    def codes(self, labels: np.ndarray) -> np.ndarray:
        """The number (m,) of the class of each label, -1 for one that was not trained on."""
        if self.numeric:
            return np.zeros(len(labels), np.intp)
        values, inverse = np.unique(labels, return_inverse=True)
        known, other = {key(label): code for code, label in enumerate(self.classes.tolist())}, -1
        if self.header["positive"] is not None:  # which is set against all others
            known, other = {key(self.header["positive"]): 1}, 0
        return np.array([known.get(key(value), other) for value in values.tolist()], np.intp)[inverse]

    def scores(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores (m, K) of rows, and the size below which one of them has no sign."""
        return X @ self.coef.T + self.offset, BLUR * (abs(X) @ np.abs(self.coef).T + self.sizes)


class File:
    """Rows in HDF5: X a dataset (n, d) or a csr_matrix, y and weights datasets (n,)."""

    def __init__(self, path: str, names: dict[str, str | None], weighted: bool, stack: contextlib.ExitStack) -> None:
        with contextlib.suppress(ImportError):
            import hdf5plugin  # noqa: F401  # registers zstd, blosc, lz4, ...
        self.path, self.stack = path, stack
        self.home = self._open(path)
        self.x = self.home.get(names["x"] or "X")
        self.sparse = isinstance(self.x, h5py.Group)
        shape = self.x.attrs.get("shape") if self.sparse else getattr(self.x, "shape", None)
        csr = not self.sparse or self.x.attrs.get("encoding-type") == "csr_matrix"
        if shape is None or len(shape) != 2 or not csr:
            raise DataError(f"{path}: {names['x'] or 'X'} holds no rows that verify reads; {CONVERT}")
        self.rows, self.features = (int(size) for size in shape)
        self.y = self._column(names["y"] or "y")
        self.weights = self._column(names["sample_weight"] or "sample_weight") if weighted else None

    def _open(self, path: str) -> h5py.File:
        if not os.path.exists(path):
            raise InputMissingError(f"{path}: no such file")
        try:
            return self.stack.enter_context(h5py.File(path, "r"))
        except OSError as error:
            raise DataError(f"{path} cannot be opened as HDF5; {CONVERT}") from error

    def _column(self, name: str) -> Any:
        """A dataset NAME, FILE:NAME, or an array FILE.npy."""
        column = self.home.get(name)
        if column is None and name.endswith(".npy") and os.path.exists(name):
            column = np.load(name, mmap_mode="r", allow_pickle=False)
        elif column is None and ":" in name:
            column = self._open(name.rpartition(":")[0]).get(name.rpartition(":")[2])
        if getattr(column, "shape", None) != (self.rows,):
            raise DataError(f"{self.path}: {name} is no dataset of {self.rows} values; {CONVERT}")
        return column.asstr() if isinstance(column, h5py.Dataset) and h5py.check_string_dtype(column.dtype) else column

    def blocks(self, memory: int, outputs: int) -> Iterator[tuple[int, Any, np.ndarray, np.ndarray]]:
        """(first row, X (m, d), y (m,), weights (m,)), float64; UsageError where a row is larger than `memory`."""
        item = (self.x["data"] if self.sparse else self.x).dtype.itemsize
        row = 64 * (outputs + 4) + (0 if self.sparse else self.features * (item + 16))  # with scores; X and |X|
        start = 0
        while start < self.rows:
            stop = min(self.rows, start + max(1, memory // row))
            sizes = np.full(stop - start, row)
            if self.sparse:
                ends = self.x["indptr"][start : stop + 1].astype(np.int64)
                sizes += np.diff(ends) * (item + 40)
            stop = start + int(np.searchsorted(np.cumsum(sizes), memory, side="right"))
            if stop == start:
                raise UsageError(f"row {start} of {self.path} takes {(sizes[0] >> 20) + 1}M; raise `memory` by that")
            if self.sparse:
                ends = ends[: stop - start + 1]
                entries = slice(int(ends[0]), int(ends[-1]))
                parts = self.x["data"][entries].astype(np.float64), self.x["indices"][entries], ends - ends[0]
                X: Any = sp.csr_matrix(parts, (stop - start, self.features))
            else:
                X = self.x[start:stop].astype(np.float64)
            weights = np.ones(stop - start) if self.weights is None else self.weights[start:stop].astype(np.float64)
            yield start, X, np.asarray(self.y[start:stop]), weights
            start = stop


class Sums:
    """What is summed up over the rows that count, of each of K problems."""

    def __init__(self, saved: Saved) -> None:
        self.saved, self.K = saved, len(saved.coef)
        self.seen = self.rows = self.wrong = self.unsure = 0
        self.phi, self.violation, self.reach = 0.0, 0.0, np.zeros(self.K)
        self.lowest, self.highest = np.full(self.K, np.inf), np.full(self.K, -np.inf)  # scores of either side
        self.smallest = np.full(self.K, np.inf)  # u
        self.losses: list[np.ndarray] = []  # of blocks, (K,)
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []  # u and caps of all rows, for a bound on the duals

    def add(self, X: Any, labels: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        """A block of rows."""
        saved = self.saved
        self.seen += len(codes)
        there = (codes >= 0) & (weights > 0.0)
        scores, blur = (part[there] for part in saved.scores(X))
        codes, weights = codes[there], weights[there]
        self.rows += len(codes)
        if saved.numeric:
            numbers = labels[there].astype(np.float64)[:, None]
            u, blur = scores - numbers, blur + BLUR * np.abs(numbers)
            self.violation = max(self.violation, float((np.abs(u) - saved.header["epsilon"]).max(initial=0.0)))
        else:
            own = codes[:, None] == (1 if self.K == 1 else np.arange(self.K))
            u = np.where(own, scores, -scores)
            self.lowest = np.minimum(self.lowest, scores.min(axis=0, where=own, initial=np.inf))
            self.highest = np.maximum(self.highest, scores.max(axis=0, where=~own, initial=-np.inf))
            # how far the score of the own class is ahead of the largest other one
            ahead = u[:, 0] if self.K == 1 else scores[own] - scores.max(axis=1, where=~own, initial=-np.inf)
            unsure = np.abs(ahead) <= blur.sum(axis=1)
            self.wrong += int(np.sum((ahead < 0.0) & ~unsure))
            self.unsure += int(np.sum(unsure))
            smallest = ahead[:, None] if saved.problem["joint"] else u
            self.smallest = np.minimum(self.smallest, smallest.min(axis=0, initial=np.inf))
        self.reach = np.maximum(self.reach, blur.max(axis=0, initial=0.0))
        with np.errstate(over="ignore"):
            phi = LOSSES[saved.header["loss"]](u, saved.header)
        self.phi += float(phi.sum())
        if not saved.hard:
            caps = (saved.caps[codes] * weights)[:, None]
            self.losses.append(np.sum(caps * phi, axis=0))
            if saved.header["dual_budget"] is not None:
                self.kept.append((u, caps))

    def loss(self) -> np.ndarray:
        """sum_i cap_i phi(u_i) (K,); with duals bound to C M in all, the least C M e + sum_i cap_i phi(u_i + e)."""
        if not self.kept:
            return np.array([math.fsum(column) for column in zip(*self.losses, strict=True)])
        header = self.saved.header
        u, caps = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))

        def total(e: np.ndarray) -> np.ndarray:
            phi = LOSSES[header["loss"]](u + e, header)
            return header["C"] * header["dual_budget"] * e + np.sum(caps * phi, axis=0)

        low, high = np.zeros(self.K), np.maximum(0.0, 50.0 - u.min(axis=0))
        for _ in range(120):  # by convexity a third of the stretch is without the least
            third = (high - low) / 3.0
            left = total(low + third) <= total(high - third)
            low, high = np.where(left, low, low + third), np.where(left, high - third, high)
        return np.minimum(total(low), total(np.zeros(self.K)))


def compare(name: str, certified: Any, found: float, blur: float = 0.0, least: Any = None) -> Check:
    """Whether two figures agree: to EXACT of the larger one, and to what rounding may have done to them.

    least: from it up to the certified figure, any other will do.
    """
    known, found = float(certified), float(found)  # "inf" is one too
    agrees = known == found or abs(known - found) <= EXACT * max(abs(known), abs(found)) + blur
    return Check(name, known, found, agrees or (least is not None and float(least) <= found <= known))


def compare_errors(name: str, certified: Any, sums: Sums, of: int = 1) -> Check:
    """Whether rows that are wrong agree, or their share of so many; not those whose answer hangs on rounding."""
    agrees = sums.wrong <= round(certified * of) <= sums.wrong + sums.unsure
    note = f"and {sums.unsure} rows on the edge" if sums.unsure else ""
    return Check(name, certified, sums.wrong / of, agrees, note)


def check_all(saved: Saved, sums: Sums) -> Iterator[Check]:
    """The figures of the certificate, those of single classes first."""
    certificate = saved.header["certificate"]
    yield compare("rows", saved.header["rows"], sums.seen)
    if not saved.numeric:
        yield compare_errors("mistakes", certificate["mistakes"], sums)
    if not saved.hard:
        losses = sums.loss()
        yield Check("loss", None, math.fsum(losses), None)
        name, each, blur = "primal", saved.penalties + losses, np.zeros(sums.K)
        total = math.fsum(each), 0.0
    elif saved.numeric:
        yield compare("violation", certificate["residual"], sums.violation, sums.reach.max())
        name, each, blur, total = "primal", saved.penalties, np.zeros(1), (saved.penalties[0], 0.0)
    else:
        there, lengths = saved.lengths > 0.0, np.maximum(saved.lengths, 1e-300)
        name, each, blur = "margin_lower", np.where(there, sums.smallest / lengths, -np.inf), sums.reach / lengths
        total = each.min(), blur[np.argmin(each)]
    parts = certificate["per_class"] if sums.K > 1 and not saved.problem["joint"] else []
    for label, part, figure, rounding in zip(saved.classes, parts, each, blur, strict=False):
        yield compare(f"{name} of class {label}", part[name], figure, rounding, part["dual"] if sums.kept else None)
    # with a bound on the duals it was certified at a multiplier that is not kept: the least is no larger
    yield compare(name, certificate[name], *total, certificate["dual"] if sums.kept else None)
    if saved.kind in ("none", "midway"):  # the intercept has no weight: it is 0, or midway between the nearest rows
        apart = np.isfinite(sums.lowest) & np.isfinite(sums.highest) & (sums.lowest > sums.highest)
        middle = np.zeros(sums.K)
        np.subtract(-sums.lowest / 2.0, sums.highest / 2.0, out=middle, where=apart & (saved.kind == "midway"))
        blur = EXACT * saved.sizes + sums.reach
        worst = int(np.argmax(np.abs(saved.constant - middle) - blur))
        yield compare(f"bias ({saved.kind})", saved.constant[worst], middle[worst], blur[worst])


def sum_up(saved: Saved, paths: Sequence[Any], names: dict[str, str | None], memory: int, learned: bool = True) -> Sums:
    """The sums over the rows of these files; learned: held-out ones weigh nothing, and may have other classes."""
    sums = Sums(saved)
    weighted = learned and (saved.problem["weighted"] or names["sample_weight"] is not None)
    for path in map(os.fspath, paths):
        with contextlib.ExitStack() as stack:
            file = File(path, names, weighted, stack)
            if file.features != saved.coef.shape[1]:
                raise DataError(f"{path} has {file.features} columns, not {saved.coef.shape[1]}; name the model's data")
            for start, X, labels, weights in file.blocks(memory, sums.K):
                codes = saved.codes(labels)
                if learned and saved.header["classes"] is None and (codes < 0).any():
                    row = int(np.argmax(codes < 0))
                    raise DataError(
                        f"{path}: the model does not know the label {labels[row]} of row {start + row}; `y`"
                    )
                sums.add(X, labels, codes, weights)
    if not sums.rows:
        raise DataError(f"{os.fspath(paths[0])} has no row that counts; name the data that the model learned from")
    return sums


def verify(
    model: str | os.PathLike, data: Any, valid: Any = None, *, memory: int = 256 << 20, **names: str | None
) -> Verified:
    """Recompute what was certified of a saved model, on the rows of the file, or of the shards, that it learned from.

    valid: the held-out file, for its error. memory: bytes for weights and blocks of rows. names: x, y, sample_weight,
    where they are called otherwise than in training. Raises InputMissingError, DataError, UsageError.
    """
    saved = Saved(os.fspath(model))
    called = {name: names.get(name) or known for name, known in saved.problem["names"].items()}
    memory -= 64 * saved.coef.size
    sums = sum_up(saved, [data] if isinstance(data, (str, os.PathLike)) else data, called, memory)
    checks = list(check_all(saved, sums))
    if valid is not None:
        known = saved.header["certificate"]["valid_error"]
        if known is None:
            raise UsageError(f"{os.fspath(model)} was trained without held-out rows; leave `valid` out")
        if ":" in (called["y"] or "") or (called["y"] or "").endswith(".npy"):
            called["y"] = None  # labels in a file of their own are those of the rows that were learned from
        held_out = sum_up(saved, [valid], called, memory, learned=False)
        mean = held_out.phi / held_out.rows  # of numbers the error is the mean loss
        error = compare("", known, mean) if saved.numeric else compare_errors("", known, held_out, held_out.rows)
        checks.append(Check("valid error", known, error.found, error.agrees, error.note))
    return Verified(sums.rows, sums.phi / sums.rows, checks)
