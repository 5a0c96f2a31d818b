"""Random trainings, each handed to `verify`: python tests/audit.py SEED N [--jobs J] [--only NUMBER].

    python tests/audit.py SEED N --solver newton --cached 0.3   # out of core, and newton caches at most 3 rows of ten

SEED and NUMBER determine a problem. Drawn are solver, loss, penalty, their fields, C, scale, weights and constant. So
are the form and type of the rows, the classes, the tolerance, a start, and the passes of early stopping. Rows stay in
memory, or are read in blocks. Labels are numbers, words, or text that looks like numbers: `7`, `007` and `7.0` are
classes of one problem. Held-out labels may be text if the others are numbers. Rows may have several targets, or
several labels of 0 and 1.

The model is saved. verification/verify.py recomputes its certificate from that file and the stored rows. Also, gaps are
those of their bounds and never negative. What converged is within the tolerance that was asked for. `predict` and
`evaluate` must agree with NumPy. A usage error counts as refused. The output has the number of outcomes for each
solver, and for each disagreement the command that repeats it. The exit code is 1 if there is one. The tests run a
hundred problems (tests/test_audit.py).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import logging
import math
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

import streammargin as sm
from streammargin import formulas
from streammargin.formulas import LOSS_FORMULAS, lifted, norm
from streammargin.penalties import FAMILY as PENALTIES
from streammargin.solvers.newton import near_margin
from streammargin.sources.open import open_source
from streammargin.verification.verify import ALLOWED_DIFFERENCE, BLUR, Saved, verify

HINGES = ("hinge", "squared_hinge", "smooth_hinge", "generalized_hinge", "logistic")
NUMBERS = ("squared_error", "absolute_error", "epsilon_insensitive", "huber", "quantile")
COLUMNS = ("l1", "elasticnet", "group", "sparse_group", "l2")  # penalties that are sums over columns
SOFT = {  # solvers of a finite C: the losses of classes, and the penalties that each supports
    "auto": (HINGES, ("lp", "lp", *COLUMNS, "linf", "l2norm", "exclusive")),
    "sdca": (HINGES, ("lp", "lp", "lp", "l2", "elasticnet", "group")),
    "asdca": (HINGES, ("lp", "l2")),
    "ascent": (HINGES, ("lp", "l2")),
    "newton": (HINGES, ("lp", "lp", *COLUMNS)),
    "pdprox": (HINGES, ("lp", *COLUMNS, *COLUMNS, "linf", "l2norm", "exclusive")),
    "prox-newton": (HINGES, COLUMNS),
    "pegasos": (("hinge",), ("lp",)),
}
HARD = {  # solvers of C = inf, and their losses
    "auto": (None, "hinge"),
    "sdca": ("hinge",),
    "asdca": ("hinge",),
    "active-set": ("hinge", "squared_hinge"),
    "dual-momentum": ("exponential", "logistic"),
    "normalized-gd": ("exponential", "logistic"),
    "gd": ("exponential", "logistic"),
    **dict.fromkeys(("perceptron", "mirror", "diagonal", "inertial-diagonal", "homotopic", "adaptive"), ("hinge",)),
    "batch-perceptron": ("hinge",),
}
WITH_NUMBERS = ("auto", "sdca", "asdca", "ascent", "pdprox", "newton", "prox-newton")
FROM_WEIGHTS = ("auto", "pdprox", "newton", "prox-newton")  # the constant may be free, too
ANY_NORM = ("auto", "sdca", "asdca", "ascent", "perceptron", "mirror")
SETTINGS = {  # what a solver is called with its fields
    "sdca": ("ascent:momentum=no,order=uniform", "ascent:momentum=no,order=importance"),
    "ascent": ("ascent:order=uniform", "ascent:order=importance"),
    "pdprox": ("pdprox:primal", "pdprox:dual", "pdprox:average", "pdprox:primal,average=no", "pdprox:dual,average"),
    "diagonal": ("diagonal:gamma=fixed", "diagonal:1,decay=linear,gamma=fixed", "diagonal:decay=log"),
    "inertial-diagonal": ("inertial-diagonal:1,decay=square,gamma=fixed,alpha=10,restarts=no",
        "inertial-diagonal:restarts=no"),
    "homotopic": ("homotopic:units=paper", "homotopic:units=paper,stochastic,group=1", "homotopic:stochastic",
        "homotopic:average=no", "homotopic:s0=3,p=0.7,r=2,decay=log", "homotopic:decay=exponential,base=0.8"),
    "adaptive": ("adaptive:step=proven",), "normalized-gd": ("normalized-gd:step=sqrt",),
    **{name: (f"{name}:average",) for name in ("perceptron", "mirror", "pegasos", "batch-perceptron")},
}  # fmt: skip
ALIKE = ("7", "007", "7.0", "+7", "7e0", " 7", "0", "-0", "00", "inf", "Infinity", "nan", "1_0", "10", "True", "1")
JOINT = ("auto", "dual-momentum", "normalized-gd", "gd", "adaptive")
JOINS = ("auto", "newton", "prox-newton")  # solvers of penalties over several lines, and of Crammer-Singer
JOINS_OUTPUTS = (*JOINS, "pdprox")  # and of y (n, K)
OVER_LINES = ("l21", "l21:0.5", "l1inf", "l1inf:0.4", "trace", "trace:0.6", "exclusive")
SLACK = 12 << 20  # bytes of any budget that no row gets


@dataclass
class Case:
    """A problem: rows, labels, weights; held-out rows and labels; options; how the rows are given."""

    X: Any
    y: np.ndarray
    weights: np.ndarray | None
    held_out: tuple[Any, np.ndarray] | None
    options: dict[str, Any]
    way: str  # arrays, file, or blocks: a file that claims to be too large

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        weighted = ", weighted" if self.weights is not None else ""
        valid = "" if self.held_out is None else f", valid {_kind(self.held_out[0])}"
        return f"{_kind(self.X)}, {self.way}{weighted}{valid}: {given}"


def _kind(X: Any) -> str:
    return f"{'csr' if sp.issparse(X) else 'dense'} {X.dtype} {X.shape}"


@dataclass
class Found:
    """What became of a problem."""

    solver: str
    outcome: str  # refused, converged, not converged
    faults: list[str] = field(default_factory=list)
    case: str = ""


def draw(seed: int, number: int, only: str | None = None) -> Case:
    """The problem of this number; only: a solver of a finite C, which takes the place of any that is drawn."""
    chance, numbers = random.Random(f"{seed} {number}"), np.random.default_rng([seed, number])
    hard = chance.random() < 0.35 and only is None
    solver = chance.choice(list(HARD if hard else SOFT)) if only is None else only
    options: dict[str, Any] = {"solver": solver, "seed": number}
    task = chance.choice(("two", "two", "several"))
    if solver in WITH_NUMBERS and chance.random() < (0.15 if hard else 0.35):
        task = "meet" if hard else "numbers"
        options["solver"] = solver = chance.choice(("auto", "sdca", "asdca")) if hard else solver
    if task in ("numbers", "several") and not hard and chance.random() < 0.4:
        task = "targets" if task == "numbers" else "labels"
    rows, columns = chance.choice((15, 40, 80, 150)), chance.choice((2, 5, 12, 30))
    if task == "meet":
        rows, columns = chance.choice((5, 12)), 30
    X, y = _rows(numbers, chance, task, rows, columns, hard)
    weights = None
    if chance.random() < 0.4:
        weights = numbers.choice([0.0, 0.5, 1.0, 3.0], rows) if chance.random() < 0.5 else numbers.random(rows) + 0.1
        weights[: min(rows, 8)] = 1.0  # no class is without rows
    if task in ("numbers", "meet", "targets"):
        _numbers(options, chance, task)
    else:
        _classes(options, chance, solver, task, hard)
    _problem(options, chance, numbers, solver, task, hard, columns)
    held_out = None
    if chance.random() < 0.3 or isinstance(options.get("C"), list) or str(options.get("C")).startswith("path"):
        held_out = _rows(numbers, chance, task, 25, columns, hard)
    way = chance.choice(("arrays", "file", "blocks"))
    if options["loss"] == "interpolate:eps":  # a dataset beside the rows
        way = chance.choice(("file", "blocks"))
    elif held_out is not None and chance.random() < 0.4:
        options["early_stop"] = chance.choice((1, 3, 10))
    options["memory"] = "1G" if chance.random() < 0.5 else SLACK + chance.choice((100, 300, 1000)) * 1024
    options["tol"], options["passes"] = chance.choice((1e-2, 1e-3, 1e-3, 1e-6)), chance.choice((10, 50, 200))
    if not hard and chance.random() < 0.25:
        options["tol"] = f"absolute:{options['tol']}"
    if task in ("two", "several"):
        y, held_out = _labels(chance, options, y, held_out)
    return Case(X, y, weights, held_out, options, way)


def _labels(
    chance: random.Random, options: dict[str, Any], y: np.ndarray, held_out: tuple[Any, np.ndarray] | None
) -> tuple[np.ndarray, tuple[Any, np.ndarray] | None]:
    """The labels of the rows and of those held out: numbers, words, or text that looks like numbers."""
    kind = chance.choice(("words", "alike", "alike", "numbers", "spelt", "numbers"))
    if kind != "words" and "class_weight" not in options and chance.random() < 0.3:
        options["weigh"] = True
    if kind == "numbers":
        return y, held_out
    values = np.unique(y).tolist()
    words = chance.sample(ALIKE, len(values)) if kind == "alike" else [f"class {value}" for value in values]
    if kind == "spelt":  # those that are held out alone
        words = [chance.choice(("{}", "{}.0", "{}e0")).format(value) for value in values]
    text = dict(zip(values, words, strict=True))

    def spelt(labels: np.ndarray) -> np.ndarray:
        return np.array([text[label] for label in labels.tolist()], dtype="S")

    held_out = None if held_out is None else (held_out[0], spelt(held_out[1]))
    return (y if kind == "spelt" else spelt(y)), held_out


def _rows(
    numbers: np.random.Generator, chance: random.Random, task: str, rows: int, columns: int, hard: bool
) -> tuple[Any, np.ndarray]:
    """Rows (n, d) and what is to be told of them: labels that a plane may tell apart, or numbers far from 0."""
    X = numbers.standard_normal((rows, columns))
    X[numbers.random(X.shape) < 0.4] = 0.0
    direction = np.linspace(1.0, 2.0, columns) * np.where(np.arange(columns) % 2, 1.0, -1.0)
    score = X @ direction / np.linalg.norm(direction)
    y: np.ndarray
    if task in ("targets", "labels"):
        y = _outputs(numbers, chance, task, X)
    elif task in ("numbers", "meet"):
        y = score * 3.0 + numbers.standard_normal(rows) + chance.choice((0.0, 7.0, 1000.0))
    elif task == "two":
        y = np.where(score + (0.0 if hard else 0.5) * numbers.standard_normal(rows) > 0.0, 1, -1)
        y[:4] = (-1, 1, -1, 1)
        if hard:
            X += 0.5 * y[:, None] * direction / np.linalg.norm(direction) * (np.abs(score) < 3.0)[:, None]
    else:
        y = np.arange(rows) % 3
        X[:, : min(3, columns)] += (4.0 if hard else 1.0) * np.eye(3)[y][:, : min(3, columns)]
    X = np.round(X, 6).astype(chance.choice((np.float32, np.float64)))
    if chance.random() < 0.3:  # columns of other sizes
        X[:, 0] *= chance.choice((1e-3, 30.0, 1000.0))
        X[:, -1] += chance.choice((0.0, 10.0))
    return (sp.csr_matrix(X) if chance.random() < 0.5 else X), y


def _outputs(numbers: np.random.Generator, chance: random.Random, task: str, X: np.ndarray) -> np.ndarray:
    """Targets (n, K) of the rows that share two columns, or labels of 0 and 1."""
    rng = np.random.default_rng(0)  # of held-out rows the same
    shared = X[:, :2] @ rng.standard_normal((2, 5))[:, : 2 + X.shape[1] % 3]
    y: np.ndarray = shared + 0.5 * numbers.standard_normal(shared.shape)
    if task == "targets":
        return y + np.linspace(0.0, chance.choice((0.0, 7.0, 1000.0)), y.shape[1])
    y = (y > 0.0).astype(np.int64)
    y[:4] = np.array([0, 1, 0, 1])[:, None]
    return y


def sum_of(saved: Saved, u: np.ndarray) -> float:
    """The sum of the losses at u, of the largest alone if only these count: the least over e of top e + ..."""
    top, lines = saved.top, u.reshape(len(u), -1).T
    if top is None:
        return float(LOSS_FORMULAS[saved.loss](u, saved.number).sum())

    def at(e: float, line: np.ndarray) -> float:
        return float(top * e + lifted(saved.loss, saved.number, line, np.array([e])).sum())

    total = 0.0
    for line in lines:
        far = np.abs(line).max() * max(1.0, saved.number or 0.0) if saved.numeric else 60.0 - line.min()
        found = minimize_scalar(
            at, args=(line,), bounds=(0.0, far), method="bounded", options={"xatol": 1e-13, "maxiter": 10_000}
        )
        kinks = np.maximum(0.0, [LOSS_FORMULAS[saved.loss](line, saved.number), 1.0 - line, -line]).ravel()
        total += min(found.fun, *(at(e, line) for e in {0.0, *kinks.tolist()}))
    return total


FIELDS = {  # of losses
    "interpolate": ("", ":0.3", ":eps"), "epsilon_insensitive": ("", ":0.3"), "quantile": (":0.1", "", ":0.8"),
    "huber": ("", ":0.4"), "smooth_hinge": ("", ":0.5"), "generalized_hinge": (":1.5", ":3"),
}  # fmt: skip


def _numbers(options: dict[str, Any], chance: random.Random, task: str) -> None:
    known = (*NUMBERS, "l2_error") if task == "targets" else NUMBERS
    loss = "interpolate" if task == "meet" else chance.choice(known)
    options["loss"] = loss + chance.choice(FIELDS.get(loss, ("",)))


def _classes(options: dict[str, Any], chance: random.Random, solver: str, task: str, hard: bool) -> None:
    loss = chance.choice(HARD[solver] if hard else SOFT[solver][0])
    options["loss"] = loss and loss + chance.choice(FIELDS.get(loss, ("",)))
    if chance.random() < 0.3:
        options["class_weight"] = "balanced"
    if task == "several" and hard and solver in JOINT and chance.random() < 0.6:
        options["multiclass"] = "joint"
    elif task == "several" and chance.random() < 0.15:
        options["some"] = True
    elif task == "several" and chance.random() < 0.2:
        options["rest"] = True


def _problem(
    options: dict[str, Any], chance: random.Random, numbers: np.random.Generator, solver: str, task: str, hard: bool,
    columns: int,
) -> None:  # fmt: skip
    options["scale"] = chance.choice(("none", "none", "maxabs", "std"))
    options["C"] = math.inf if hard else 10.0 ** chance.uniform(-3.0, 2.0)
    if not hard:
        penalty = chance.choice(SOFT[solver][1])
        fields: dict[str, Any] = {}
        if penalty in ("elasticnet", "group", "sparse_group"):
            fields["l1_ratio"] = chance.choice((0.3, 0.8) if solver == "sdca" else (0.0, 0.5, 1.0))
        if penalty in ("group", "sparse_group", "exclusive"):
            fields["groups"] = numbers.integers(0, max(1, columns // 2), columns)
        if solver in ("auto", "pdprox") and penalty in ("l1", "l2", "elasticnet") and chance.random() < 0.5:
            domains = [{"low": 0.0}, {"low": -0.1, "high": 0.2}, {"low": 0.0, "high": 1.0}]
            fields |= chance.choice([*domains, {"radius": 0.1}, {"radius": 3.0}] if penalty == "l2" else domains)
        options["penalty"] = PENALTIES.find(penalty)(**fields)
        if chance.random() < 0.2:
            options["C"] = [0.03, 0.3, 3.0]
        elif solver in FROM_WEIGHTS[1:] and chance.random() < 0.15:
            options["C"] = "path:4,low=0.01,high=1"
        if solver in ("auto", "pdprox") and options["loss"] != "squared_error" and chance.random() < 0.2:
            options["loss"] += "," if ":" in options["loss"] else ":"
            options["loss"] += "top=8"
        if solver in FROM_WEIGHTS and chance.random() < 0.25:
            options["init"] = True
    if solver in ANY_NORM and str(options.get("penalty", "l2")) in ("l2", "lp:2") and chance.random() < 0.3:
        options["penalty"] = chance.choice(("lp:1.5", "lp:sparse"))
    if solver in SETTINGS and chance.random() < 0.5:
        options["solver"] = chance.choice(SETTINGS[solver])
    options["bias"] = chance.choice((None, 0.0, 1.0, 0.3, "midway" if hard else 5.0))
    if not hard and solver in FROM_WEIGHTS and chance.random() < 0.3:
        options["bias"] = "free"
    if task == "several" and not hard and solver in JOINS:
        if chance.random() < 0.4:
            options["penalty"] = chance.choice(OVER_LINES)
        if options["loss"] == "hinge" and chance.random() < 0.6:
            options["multiclass"] = "joint"
    if task in ("targets", "labels") and solver in JOINS_OUTPUTS and chance.random() < 0.4:
        options["penalty"] = chance.choice(OVER_LINES)


def write(path: str, X: Any, y: np.ndarray, weights: np.ndarray | None) -> None:
    """Rows as a file of the project's layout, by h5py alone."""
    with h5py.File(path, "w") as file:
        if sp.issparse(X):
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
            group["data"], group["indices"], group["indptr"] = X.data, X.indices, X.indptr.astype(np.int64)
        else:
            file["X"] = X
        file["y"], file["eps"] = y, np.arange(len(y)) % 4 / 10.0
        if weights is not None:
            file["sample_weight"] = weights


def plain(labels: np.ndarray) -> np.ndarray:
    """Labels as numbers or as text."""
    return np.char.decode(labels) if labels.dtype.kind == "S" else labels


def codes_of(saved: Saved, labels: np.ndarray) -> np.ndarray:
    """The code of the class of each label, -1 for other labels: those that are equal in Python."""
    if saved.several:
        return labels.astype(np.intp)
    classes, rest = saved.classes.tolist(), saved.header["positive"]
    if labels.dtype.kind == "U" and not isinstance(classes[0] if rest is None else rest, str):
        labels = np.array([float(label) for label in labels.tolist()])
    if rest is not None:
        return np.array([label == rest for label in labels.tolist()], np.intp)
    return np.array([classes.index(label) if label in classes else -1 for label in labels.tolist()], np.intp)


def judged(saved: Saved, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(scores, bounds on their rounding, the class that each row gets, whether that is beyond rounding)."""
    rows = X.astype(np.float64)
    scores, blur = rows @ saved.coef.T + saved.intercept, BLUR * (abs(rows) @ np.abs(saved.coef).T + saved.sizes)
    if saved.several:  # each label for itself
        return scores, blur, (scores > 0.0).astype(int), np.abs(scores) > blur
    sure = np.abs(scores[:, 0]) > blur[:, 0]
    best = (scores[:, 0] > 0.0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
    if scores.shape[1] > 1:
        ordered = np.sort(scores, axis=1)
        sure = ordered[:, -1] - ordered[:, -2] > 2.0 * blur.max(axis=1)
    return scores, blur, best, sure


def of_labels(case: Case, saved: Saved, certificate: Any) -> list[str]:
    """Where the held-out error, or the weights of classes, are not those of the labels."""
    found = []
    if case.held_out is not None and certificate["valid_error"] is not None:
        codes = codes_of(saved, plain(case.held_out[1]))
        *_, best, sure = judged(saved, case.held_out[0])
        there = codes >= 0
        least, most = np.sum((best != codes) & there & sure), np.sum(((best != codes) | ~sure) & there)
        if not least - 1e-9 <= certificate["valid_error"] * there.sum() <= most + 1e-9:
            found.append(f"valid_error: {certificate['valid_error']}, {least} to {most} of {there.sum()} found")
    if "weigh" in case.options and not saved.hard:
        first = codes_of(saved, np.unique(plain(case.y))[:1])[0]
        wanted = [3.0 if code == first else 1.0 for code in range(len(saved.caps))]
        if not np.allclose(saved.caps, float(saved.header["C"]) * np.array(wanted)):
            found.append(f"caps are {saved.caps.tolist()}, of the weights {wanted}")
    return found


def train(case: Case, path: str, valid: str | None) -> sm.TrainResult:
    """The result of the problem, whose rows lie in a file too."""
    options = {name: value for name, value in case.options.items() if name not in ("some", "rest", "weigh")}
    labels = np.unique(plain(case.y)).tolist()
    if "weigh" in case.options:
        options["class_weight"] = {labels[0]: 3.0}
    if "some" in case.options:
        options["classes"] = labels[:2]
    if "rest" in case.options:
        options["positive"] = labels[1]
    if "init" in options:
        other = {**options, "C": 0.1, "passes": 2, "init": None, "early_stop": None, "memory": "1G"}
        options["init"] = sm.train((case.X, case.y), **other).model
    if valid is not None:
        options["valid"] = valid
    if case.way == "arrays":
        return sm.train((case.X, case.y), sample_weight=case.weights, **options)
    if case.way == "file":
        return sm.train(path, **options)
    with open_source(path) as source:
        bounds, room = np.linspace(0, source.rows, 5).astype(np.int64), source.buffer_bytes
        source.bounds = lambda most: bounds  # type: ignore[method-assign]
        source.buffer_bytes = lambda ends: room(ends) if len(ends) > 2 else 1 << 50  # type: ignore[method-assign]
        return sm.train(source, **options)


def train_anyway(case: Case, path: str, valid: str | None) -> sm.TrainResult:
    """The result of the problem; if less memory was drawn than a plan takes, with the least that is named."""
    try:
        return train(case, path, valid)
    except sm.UsageError as error:
        least = re.search(r"smallest plan needs (\w+)", str(error))
        if least is None:
            raise
    case.options["memory"] = least[1]
    try:
        return train(case, path, valid)
    except sm.UsageError as error:
        assert "smallest plan" not in str(error), f"{least[1]} was said to be enough: {error}"
        raise


def proven(saved: Saved, certificate: Any, tol: float | str, largest: float) -> bool:
    """Whether the certified figures are within the tolerance; largest: |y|."""
    if isinstance(tol, str):
        return bool(certificate["mean_gap"] <= float(tol.removeprefix("absolute:")))
    if not (saved.hard and saved.numeric):
        return bool(certificate["margin_gap" if saved.hard else "gap"] <= tol)
    primal, dual = certificate["primal"], certificate["dual"]
    return bool(abs(primal - dual) <= tol * max(primal, dual) and certificate["residual"] <= tol * largest)


def gaps(certificate: Any, mass: np.ndarray) -> dict[str, float]:
    """The gaps of the worst class at a finite C, from the bounds; mass: C sum_i s_i of each entry."""
    bounds = [(one["primal"], one["dual"]) for one in certificate["per_class"]]
    return {
        "gap": max(
            (primal - dual) / (max(abs(primal), abs(dual)) or 1.0) if math.isfinite(dual) else math.inf
            for primal, dual in bounds
        ),
        "mean_gap": max((primal - dual) / one for (primal, dual), one in zip(bounds, mass, strict=True)),
    }


def masses(saved: Saved, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """C sum_i s_i of each entry of the certificate: if lines are one problem, that of the first line."""
    if saved.several:
        each = np.take_along_axis(saved.caps, y.T, axis=1) @ weights
    else:
        codes = np.zeros(len(y), np.intp) if saved.numeric else codes_of(saved, y)
        each = np.full(len(saved.coef), saved.caps[codes] @ weights)
    return each[:: saved.problem["lines"]]


def faults(case: Case, result: sm.TrainResult, model: str, path: str, valid: str | None) -> list[str]:
    """What disagrees, a line each."""
    found = [
        f"{check.name}: certified {check.certified}, found {check.found}"
        for check in verify(model, path, valid, memory=1 << 15)
        if check.agrees is False
    ]
    certificate = result.certificate
    for name in ("gap", "mean_gap", "margin_gap"):
        if certificate[name] is not None and not certificate[name] >= 0.0:
            found.append(f"{name} is {certificate[name]}")
    saved = Saved(model)
    for name in ("primal", "dual"):
        if float(saved.header["certificate"][name]) != certificate[name]:
            found.append(f"{name}: {certificate[name]} of the result, {saved.header['certificate'][name]} in the file")
    there = np.ones(len(case.y), bool) if case.weights is None else case.weights > 0.0
    loaded = sm.load_model(model)
    labels = plain(case.y)
    if not saved.numeric:
        there &= (codes_of(saved, labels) >= 0).reshape(len(labels), -1).all(axis=1)
        found += of_labels(case, saved, certificate)
    X, y = case.X[there], labels[there]
    largest = np.abs(y).max() if saved.numeric else 0.0
    if result.converged and not proven(saved, certificate, case.options["tol"], largest):
        found.append("converged, but not within the tolerance")
    if not saved.hard:
        mass = masses(saved, y, np.ones(len(y)) if case.weights is None else case.weights[there])
        sizes = {"gap": 1.0, "mean_gap": abs(certificate["primal"]) / mass.min()}
        for name, gap in gaps(certificate, mass).items():
            if certificate[name] != gap and not abs(certificate[name] - gap) <= ALLOWED_DIFFERENCE * (
                gap + sizes[name]
            ):
                found.append(f"{name} is {certificate[name]}, {gap} found")
    scores, blur, best, sure = judged(saved, X)
    figures = loaded.evaluate((X, y))
    if saved.numeric:
        u = scores - y.reshape(len(y), -1)
        told = scores[:, 0] if saved.outputs is None else scores
        if not np.allclose(loaded.predict(X), told, rtol=1e-12, atol=float(blur.max())):
            found.append("predict gives other numbers")
    else:
        codes, one = codes_of(saved, y), scores.shape[1] == 1
        if (loaded.predict(X)[sure] != saved.classes[best[sure]]).any():
            found.append("predict gives other labels")
        own = codes == 1 if saved.several else codes[:, None] == (1 if one else np.arange(scores.shape[1]))
        u = np.where(own, scores, -scores)
        mistakes = int(np.sum((best != codes) & sure))
        if not mistakes <= figures["mistakes"] <= mistakes + int(np.sum(~sure)):
            found.append(f"evaluate: {figures['mistakes']} mistakes, {mistakes} found")
        size = norm(saved.coef[0], float(saved.header["p"]))
        if one and size > 0.0:
            margin = float(u.min()) / size
            if abs(figures["margin"] - margin) > 1e-9 * abs(margin) + float(blur.max()) / size:
                found.append(f"evaluate: margin {figures['margin']}, {margin} found")
    if saved.column is not None:
        return found  # `evaluate` knows no epsilons of rows
    with np.errstate(over="ignore"):
        if saved.problem["joint"] and saved.loss in formulas.JOINT:  # at C = inf too
            total = float(formulas.JOINT[saved.loss](*([u] if saved.numeric else [scores, own])).sum())
        else:
            total = sum_of(saved, u) / len(saved.outputs or [""])  # the mean of the outputs
        loss = total / len(y)
    if abs(figures["loss"] - loss) > 1e-9 * loss + float(blur.max()):
        found.append(f"evaluate: loss {figures['loss']}, {loss} found")
    return found


@contextlib.contextmanager
def cache_of(share: float | None) -> Iterator[None]:
    """Out of core, newton caches at most this share of the rows; None: what the budget allows."""
    counted = near_margin.cache_bytes
    if share is not None:
        near_margin.cache_bytes = lambda problem: int(share * problem.rows * near_margin.row_bytes(problem))
    try:
        yield
    finally:
        near_margin.cache_bytes = counted


def one(seed: int, number: int, only: str | None = None, cached: float | None = None) -> Found:
    """Draw a problem, train, and look."""
    logging.getLogger("streammargin").setLevel(logging.ERROR)
    case = draw(seed, number, only)
    if cached is not None:
        case.way = "blocks"
    found = Found(case.options["solver"].partition(":")[0], "refused", case=str(case))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), cache_of(cached):
        warnings.simplefilter("error")
        path, valid, model = (os.path.join(folder, name) for name in ("data.h5", "valid.h5", "model.npz"))
        write(path, case.X, case.y, case.weights)
        if case.held_out is not None:
            write(valid, *case.held_out, None)
        held_out = None if case.held_out is None else valid
        try:
            result = train_anyway(case, path, held_out)
            found.outcome = "converged" if result.converged else "not converged"
            result.model.save(model)
            found.faults = faults(case, result, model, path, held_out)
        except sm.UsageError as error:
            found.faults = [] if found.outcome == "refused" else [f"UsageError: {error}"]
        except Exception as error:
            found.faults = [f"{type(error).__name__}: {error}"]
    return found


def run(seed: int, numbers: range, jobs: int = 1, only: str | None = None, cached: float | None = None) -> list[Found]:
    """What became of these problems, in order."""
    if jobs == 1:
        return [one(seed, number, only, cached) for number in numbers]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        found = functools.partial(one, seed, only=only, cached=cached)
        return list(pool.map(found, numbers, chunksize=20))


def report(seed: int, numbers: range, found: list[Found], more: str = "") -> int:
    """Print the table of solvers and the problems that disagree; how many these are. more: options of the command."""
    tally: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for one in found:
        tally[one.solver][one.outcome] += 1
    print(f"{'solver':<18}{'problems':>9}{'refused':>9}{'trained':>9}{'converged':>11}")
    for solver, counts in [*sorted(tally.items()), ("all", sum(tally.values(), collections.Counter()))]:
        trained = counts["converged"] + counts["not converged"]
        share = f"{100.0 * counts['converged'] / trained:.1f}%" if trained else "-"
        print(f"{solver:<18}{counts.total():>9}{counts['refused']:>9}{trained:>9}{share:>11}")
    bad = [(number, one) for number, one in zip(numbers, found, strict=True) if one.faults]
    for number, one in bad:
        print(f"python tests/audit.py {seed} 1 --only {number}{more}  # {one.case}")
        for fault in one.faults:
            print(f"    {fault}")
    print(f"{len(found)} problems of seed {seed}, {len(bad)} disagree")
    return len(bad)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("problems", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this problem alone")
    parser.add_argument("--solver", choices=sorted(SOFT), help="this one alone, at a finite C")
    parser.add_argument("--cached", type=float, metavar="SHARE", help="out of core: of the rows that newton may cache")
    given = parser.parse_args()
    chosen = range(given.problems) if given.only is None else range(given.only, given.only + 1)
    started = time.perf_counter()
    found = run(given.seed, chosen, given.jobs, given.solver, given.cached)
    options = (("solver", given.solver), ("cached", given.cached))
    bad = report(
        given.seed, chosen, found, "".join(f" --{name} {value}" for name, value in options if value is not None)
    )
    print(f"{time.perf_counter() - started:.0f} s")
    sys.exit(bad > 0)
