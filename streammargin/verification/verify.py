"""Recompute the figures of a saved model from its file and the stored rows, with NumPy and SciPy only.

Readers who doubt the engine need this file, what it imports, maps and users' kernels. A model is a JSON header and
arrays: coef (K, d), intercept (K,), classes, caps and others. The penalised weights of the scaled columns are w = coef
/ factor. The weight of the constant column of value v is (intercept - shift + coef . center) / v. The objective is R(w)
+ sum_i cap_i phi(u_i); at C = inf it is the margin min_i u_i / ||w||_p, or R(w) and the largest violation. For classes
u is y (x.w + b), in a regression x.w + b - y. With one W for all classes phi is a function of all scores. If y is (n,
K), each row of coef has its own column of y, shift and objective; of tasks, the rows of its task and a row of caps.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.sparse as sp

from streammargin import calibrated, stored
from streammargin.errors import DataError, MisnamedError, UsageError
from streammargin.files import check_input, reading
from streammargin.formulas import JOINT, LOSS_FORMULAS, OF_LINES, PENALTY_FORMULAS, REGRESSIONS, bounded, norm, numbers
from streammargin.kernels import known_kernel
from streammargin.machines import machine_of, mapped_of, margins
from streammargin.maps import fitted_of
from streammargin.matching import Codes, Matcher
from streammargin.numpy_model import RowSteps, texts_of
from streammargin.packages import register_filters
from streammargin.saved.header import read_saved
from streammargin.saved.words import column_of, held_out_rows, known_error, left, spelled

ALLOWED_DIFFERENCE, LEAST_FIGURE = 1e-9, 1e-290  # relative, of two figures; below LEAST_FIGURE they have too few digits
BLUR = 1e-12  # the sign of a score below BLUR |w|.|x| is not reliable
CONVERT = "write X as a dataset or csr_matrix, and y beside it, with: streammargin-data convert IN OUT.h5"


class Check(NamedTuple):
    """A figure as certified and as recomputed; agrees: None if it was not certified."""

    name: str
    certified: float | None
    found: float
    agrees: bool | None


class Saved:
    """A loaded model file. Raises InputMissingError, DataError, UsageError for one that cannot be verified."""

    def __init__(self, path: str, memory: float = math.inf) -> None:
        arrays, self.header = read_saved(path, memory)
        h, self.steps, self.arrays = self.header, RowSteps(arrays), arrays
        self.machine, self.mapped = machine_of(arrays, known_kernel), mapped_of(arrays, fitted_of)
        if self.machine is not None:
            if (size := 64 * len(self.machine.coef) * self.machine.width) > memory:
                raise UsageError(f"the columns of {path} take {(size >> 20) + 1}M; raise `memory` by that")
            arrays["coef"] = np.zeros((len(self.machine.coef), self.machine.width))
        features = arrays["coef"].shape[1] if self.mapped is None else self.mapped.features
        self.columns = texts_of(arrays["feature_names"].view("S1")) if "feature_names" in arrays else range(features)
        self.problem = problem = h["problem"]
        if problem is None or h["certificate"]["primal"] is None:
            raise UsageError(f"{path} is of a stream, or stopped early, so nothing was certified; train it for longer")
        if (column := column_of(h["loss"])) == "[...]":  # of the epsilons
            raise UsageError(f"the epsilons of {path} were an array; to verify it, train with `loss=interpolate:NAME`")
        word, self.column = h["loss"] if column is None else "interpolate", column
        (self.loss, self.number, named), (penalty, r, domain) = spelled(word), spelled(h["penalty"])
        one = problem["joint"] and not np.isinf(arrays["caps"]).all()  # a loss of all scores of a row
        known = self.loss in (JOINT if one else LOSS_FORMULAS) and penalty in PENALTY_FORMULAS | OF_LINES
        if own := self.steps.theirs or ("" if known else f"{h['loss']} and {h['penalty']}"):
            raise UsageError(f"verify does not know users' own formulas: {path} has {own}")
        self.coef, self.intercept = arrays["coef"].astype(np.float64), arrays["intercept"].astype(np.float64)
        self.classes, self.caps, width = texts_of(arrays["classes"]), arrays["caps"], self.coef.shape[1]
        self.known = Codes(self.classes, h["positive"], path)
        self.center, self.factor = arrays.get("center", np.zeros(width)), arrays.get("factor", np.ones(width))
        self.kind, self.value, self.weighted = *map(problem["constant"].get, ("kind", "value")), problem["weighted"]
        self.all_scores, self.outputs = one, h.get("outputs")  # the names of the columns of y (n, outputs)
        self.several = self.outputs is not None and self.loss not in REGRESSIONS  # labels of a row, each 0 or 1
        self.tasks = Matcher(h["tasks"], f"the tasks of {path}") if h.get("tasks") else None
        self.numeric, self.hard, self.top = self.loss in REGRESSIONS, bool(np.isinf(self.caps).all()), named.get("top")
        if self.numeric != (not len(self.classes)):
            raise ValueError(f"its loss is {h['loss']}, and it has {len(self.classes)} classes")
        moved = self.coef * self.center
        through = (np.asarray(problem["shift"]) if self.numeric else 0.0) - moved.sum(axis=1)  # of the columns' shift
        self.sizes = np.abs(self.intercept) + np.abs(through) + np.abs(moved).sum(axis=1)
        self.constant, self.offset = self.intercept - through, through if self.kind == "midway" else self.intercept
        self.late = self.constant if self.kind == "midway" else 0.0  # added after the proof
        of = arrays.get("groups", np.zeros(width, np.int64))
        groups = np.split(np.argsort(of, kind="stable"), np.cumsum(np.unique(of, return_counts=True)[1])[:-1])
        w = self.coef / np.where(self.factor > 0.0, self.factor, 1.0)  # a column with factor 0 has weight 0
        low, high, radius = map(domain.get, ("low", "high", "radius"), (-math.inf, math.inf, math.inf))
        beyond = np.maximum(low - w, w - high) - BLUR * np.abs(w)  # outside of the domain, beyond rounding
        beyond = np.maximum(beyond, [[norm(line, 2.0) * (1.0 - BLUR) - radius] for line in w])
        if self.kind == "penalised":
            groups, w = [*groups, np.array([width])], np.column_stack([w, self.constant / self.value])
        if penalty in OF_LINES and "groups" not in arrays:
            found = np.append(OF_LINES[penalty](w, r), np.zeros(len(w) - 1))  # one for all lines
        else:
            found = np.array([PENALTY_FORMULAS[penalty](line, r, h["p"], groups) for line in w])
        self.penalties = np.where((beyond > 0.0).any(axis=1), math.inf, found ** (p := domain.get("power", 1.0)) / p)
        if self.machine is not None:
            self.penalties = self.machine.penalties
        self.lengths = np.array([norm(w.ravel() if problem["joint"] else line, h["p"]) for line in w])
        self.eps = (width + 8) * 2.0**-52  # rounding of a score, relative to |w|.|x|
        unit, parts = (math.sqrt(2.0), [w.ravel()] * len(w)) if problem["joint"] else (1.0, w)  # two scores
        self.rounding = unit * 2 * (width + 4) * 2.0**-52 * np.array([norm(part, 2.0) for part in parts])

    def codes(self, labels: np.ndarray) -> np.ndarray:
        """The class code (m,), or (m, outputs), of each label, -1 for a label that was not trained on."""
        if labels.dtype.kind not in "biufOSU":
            raise ValueError("labels are neither numbers nor text")
        if self.numeric:
            return np.zeros(len(labels), np.intp)
        if self.several:
            return np.where(labels == 1, 1, np.where(labels == 0, 0, -1))
        values, inverse = np.unique(labels, return_inverse=True)
        return np.array(self.known.of(values), np.intp)[inverse]

    def scores(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """(scores (m, K), bounds on their rounding (m, K)), without a midway bias, which was added after the proof."""
        found, blur = X @ self.coef.T + self.offset, BLUR * (abs(X) @ np.abs(self.coef).T + self.sizes)
        if self.machine is None:
            return found, blur
        return tuple(one + more for one, more in zip((found, blur), self.machine.scores(X), strict=True))

    def as_trained(self, X: Any) -> Any:
        """Rows as stored, after the steps and the map of the training."""
        return self.steps.taken(X) if self.mapped is None else self.mapped.mapped(self.steps.taken(X))

    def squares(self, X: Any) -> np.ndarray:
        """||a||_2^2 (m,) of the rows as trained on: scaled, with the constant column."""
        moved = (X * X) @ self.factor**2 - 2.0 * (X @ (self.center * self.factor**2))
        return moved + np.sum((self.center * self.factor) ** 2) + self.value**2


class File:
    """Rows in HDF5: X a dataset (n, d) or a csr_matrix, y and weights datasets (n,), or y (n, outputs)."""

    def __init__(self, path: str, names: dict[str, Any], weighted: bool, stack: Any, outputs: int = 0) -> None:
        register_filters()
        self.path, self.stack, self.names = path, stack, (names := stored.names_in(path, names))
        self.home = self._open(path)
        self.x = self.home.get(names["x"] or "X")
        self.sparse = isinstance(self.x, h5py.Group)
        shape = self.x.attrs.get("shape") if self.sparse else getattr(self.x, "shape", None)
        if shape is None or len(shape) != 2 or (self.sparse and self.x.attrs.get("encoding-type") != "csr_matrix"):
            raise DataError(f"{path}: {names['x'] or 'X'} is not a layout of rows that verify reads; {CONVERT}")
        stored.check_rows(self.x)
        self.rows, self.features, self.wide = *map(int, shape), 0  # wide: bytes of a row's fixed-length text
        self.keep = stored.rows_with(self.home, mask, self._open) if (mask := names.get("mask")) else None
        self.y = self._column(names["y"] or stored.labels_in(self.home, names["table"]), outputs)
        self.weights = self._column(names["sample_weight"] or "sample_weight") if weighted else None
        self.epsilons, self.tasks = (self._column(one) if one else None for one in (names["epsilon"], names["tasks"]))

    def _column(self, name: str, outputs: int = 0) -> Any:
        """A dataset NAME, FILE:NAME, or an array FILE.npy, of (rows,), or (rows, outputs) if these are named."""
        column = stored.column_named(self.home, name, self.keep, self._open)
        shapes = [(self.rows, outputs)] if outputs else [(self.rows,), (self.rows, 1)]
        if getattr(column, "shape", None) not in shapes:
            wrong = MisnamedError if name in self.names["given"] else DataError
            raise wrong(f"{self.path}: {name} is not a dataset of the shape {shapes[0]}; {CONVERT} with `y={name}`")
        stored.check_stored_values(column)
        self.wide = max(self.wide, 8 * max(1, outputs) * column.dtype.itemsize)
        return column.asstr() if isinstance(column, h5py.Dataset) and h5py.check_string_dtype(column.dtype) else column

    def _open(self, path: str) -> h5py.File:
        check_input(path)
        return self.stack.enter_context(stored.open_hdf5(path, CONVERT))

    def blocks(self, memory: int, outputs: int) -> Iterator[Any]:
        """(numbers of rows, X (m, d), y, weights, epsilons or None, tasks or None (m,)). UsageError for a long row."""
        item, row, stop = 64, 64 * (outputs + 4) + self.wide, 0  # bytes per value (X, X * X, |X|), and per row besides
        for part in [self.x[part] for part in ("data", "indices", "indptr")] if self.sparse else [self.x]:
            if (chunk := math.prod(part.chunks or ()) * part.dtype.itemsize) > memory:
                raise UsageError(f"a chunk of {self.path} takes {(chunk >> 20) + 1}M; raise `memory` by that")
        while stop < self.rows:
            start, stop = stop, min(self.rows, stop + max(1, memory // row))
            ends = self.x["indptr"][start : stop + 1] if self.sparse else np.arange(stop - start + 1) * self.features
            if self.sparse and not 0 <= ends[0] <= ends[-1] <= len(self.x["data"]):
                raise ValueError("indptr leads out of the values")
            taken = (ends.astype(np.float64) - ends[0]) * item + np.arange(len(ends)) * row
            stop = start + int(np.searchsorted(taken, memory, side="right")) - 1
            if stop <= start:
                raise UsageError(f"row {start} of {self.path} takes {taken[1] / 2**20:.0f}M; raise `memory` by that")
            if self.sparse:
                ends = ends[: stop - start + 1].astype(np.int64)
                values, indices = (self.x[part][int(ends[0]) : int(ends[-1])] for part in ("data", "indices"))
                X: Any = sp.csr_array((numbers(values), indices, ends - ends[0]), (stop - start, self.features))
                X.check_format(full_check=True)  # a wrong index would read outside the array
            else:
                X = numbers(self.x[start:stop])
            weights = np.ones(stop - start) if self.weights is None else numbers(self.weights[start:stop])
            epsilons = None if self.epsilons is None else numbers(self.epsilons[start:stop])
            y, tasks = np.asarray(self.y[start:stop]), None if self.tasks is None else self.tasks[start:stop]
            found = np.arange(start, stop), X, y[:, 0] if y.shape[1:] == (1,) else y, weights, epsilons, tasks
            of = None if self.keep is None else np.flatnonzero(self.keep[start:stop])
            if of is None or of.size:
                yield [one if of is None or one is None else one[of] for one in found]


class RowSums:
    """Sums over the present rows, for each of K problems."""

    def __init__(self, saved: Saved, learned: bool) -> None:
        self.saved, self.K, self.learned = saved, len(saved.coef), learned
        self.seen = self.rows = self.wrong = self.unsure = 0
        self.phi = self.slip = self.violation = self.square = 0.0  # slip: effect on phi of rounding in the scores
        self.lowest, self.highest = np.full(self.K, np.inf), np.full(self.K, -np.inf)  # score, y = 1; y = -1
        self.smallest, self.blur = np.full(self.K, np.inf), np.zeros(self.K)  # of u; of the scores' rounding
        self.losses: list[np.ndarray] = []  # per block, (2, K): losses, and the effect of rounding on them
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []  # u and caps of all rows, needed for the field top

    def add(self, X: Any, labels: np.ndarray, codes: np.ndarray, weights: np.ndarray, epsilons: Any, of: Any) -> None:
        """Add a block of rows; labels: numbers of rows with a weight. of (m,): the numbers of their tasks, or None."""
        saved, number, self.seen, present = self.saved, self.saved.number, self.seen + len(codes), weights > 0.0
        self.square = max(self.square, float(saved.squares(X)[present].max(initial=0.0)))
        found = saved.scores(X)
        if saved.machine is not None and self.learned:
            saved.machine.meet(self.seen - len(codes), found[0] - saved.offset)
        scores, blur, codes, weights = (part[present] for part in (*found, codes, weights))
        if of is not None:
            scores, blur = (np.take_along_axis(part, of[present, None], 1) for part in (scores, blur))
        self.rows += len(codes)
        if saved.numeric:
            y = np.atleast_2d(labels.T).T  # (m, 1), for no row as well
            u, blur = scores - y, blur + BLUR * np.abs(y)
            number = number if epsilons is None else epsilons[present][:, None]
            beyond = np.abs(u) - (0.0 if number is None else number)
            self.violation = max(self.violation, float(beyond.max(initial=0.0)))
        elif saved.several:
            u = np.where(codes == 1, scores, -scores)
            unsure = np.abs(u) <= blur
            self.wrong, self.unsure = self.wrong + int(np.sum((u < 0.0) & ~unsure)), self.unsure + int(unsure.sum())
        else:
            own = codes[:, None] == (1 if scores.shape[1] == 1 else np.arange(self.K))
            u, shown = (np.where(own, part, -part) for part in (scores, scores + saved.late))  # shown: to predict with
            self.lowest = np.minimum(self.lowest, scores.min(axis=0, where=own, initial=np.inf))
            self.highest = np.maximum(self.highest, scores.max(axis=0, where=~own, initial=-np.inf))
            # the score of the row's class minus the largest other score
            ahead = shown[:, 0] if scores.shape[1] == 1 else shown[own] + shown.min(axis=1, where=~own, initial=np.inf)
            unsure = np.abs(ahead) <= blur.sum(axis=1)
            self.wrong, self.unsure = self.wrong + int(np.sum((ahead < 0.0) & ~unsure)), self.unsure + int(unsure.sum())
            smallest = ahead[:, None] if saved.problem["joint"] else u  # a joint margin has no bias midway
            self.smallest = np.minimum(self.smallest, smallest.min(axis=0, initial=np.inf))
        self.blur = np.maximum(self.blur, blur.max(axis=0, initial=0.0))
        wide = blur * (saved.eps / BLUR)
        with np.errstate(over="ignore", invalid="ignore"):
            if saved.all_scores:
                phi = (JOINT[saved.loss](u) if saved.numeric else JOINT[saved.loss](scores, own))[:, None]
                slip = 2.0 * wide.sum(axis=1, keepdims=True)
            else:
                phi, low, high = (LOSS_FORMULAS[saved.loss](u + by, number) for by in (0.0, -wide, wide))
                slip = np.maximum(low, high) - phi
        self.phi, self.slip = self.phi + float(phi.sum()), self.slip + float(slip.sum())
        if not saved.hard:
            each = np.take_along_axis(saved.caps, codes.T, axis=1).T if saved.several else saved.caps[..., codes].T
            own = of is None or of[present, None] == np.arange(self.K)
            caps = own * np.atleast_2d(each.T).T * weights[:, None]
            self.losses.append(np.sum(caps * np.stack([phi, slip]), axis=1))
            self.kept += [(u, caps)] if saved.top is not None else []

    def mistakes(self, known: float) -> float:
        """Misclassified rows; those undecided by rounding are counted so as to agree with `known`, if possible."""
        return min(max(known, self.wrong), self.wrong + self.unsure)

    def loss(self) -> np.ndarray:
        """sum_i cap_i phi(u_i) (K,), or with the field top what `bounded` makes of it."""
        if not self.kept:
            return np.array([math.fsum(column) for column in zip(*(part[0] for part in self.losses), strict=True)])
        u, caps = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        return bounded(self.saved.loss, self.saved.number, u, caps, self.saved.header["C"] * self.saved.top)


def compare(name: str, certified: Any, found: float, blur: float = 0.0, hidden: bool = False) -> Check:
    """Whether two figures agree: up to ALLOWED_DIFFERENCE of the larger one and `blur`; `margins` has more on both."""
    known, found = float(certified), float(found)  # "inf" is one too
    near = ALLOWED_DIFFERENCE * max(abs(known), abs(found), LEAST_FIGURE)
    agrees = known <= min(0.0, found + near) if blur == -math.inf else abs(known - found) <= near + blur < math.inf
    return Check(name, known, found, None if hidden and known <= 0.0 else bool(known == found or agrees))


def check_all(saved: Saved, sums: RowSums) -> Iterator[Check]:
    """Compare the figures of the certificate, those of single classes first."""
    certificate, share = saved.header["certificate"], saved.problem.get("left_out")
    yield compare("rows", saved.header["rows"], sums.seen)
    yield from [Check("  held out", None, n, None) for n in [held_out_rows(sums.seen, share)] if n]
    if not saved.numeric:
        yield compare("mistakes", certificate["mistakes"], sums.mistakes(certificate["mistakes"]))
        yield from [Check("  undecided by rounding", None, sums.unsure, None)] if sums.unsure else []
    if not saved.hard:
        yield Check("loss", None, math.fsum(losses := sums.loss()), None)
        penalties = saved.penalties.sum(keepdims=True) if saved.all_scores else saved.penalties
        name, each, blur = "primal", penalties + losses, np.sum([part[1] for part in sums.losses], axis=0)
    elif saved.numeric:
        yield compare("violation", certificate["residual"], sums.violation, sums.blur.max())
        name, each, blur = "primal", saved.penalties, np.zeros(1)
    elif saved.machine is not None:
        name = "margin_lower"
        each, blur, hidden = margins(saved.machine, saved.problem["joint"], sums.smallest)
    else:
        lengths = np.maximum(saved.lengths, 1e-300)  # certified: less by (2 d + 4) eps ||x|| ||w||, or less
        name, each = "margin_lower", np.where(lengths > 1e-300, sums.smallest / lengths, -np.inf)
        blur = (sums.blur + saved.rounding * math.sqrt(sums.square)) / lengths
    hidden = np.zeros(each.size, bool) if saved.machine is None or not saved.hard else hidden
    together = zip(each, blur, hidden, strict=True)
    total = min(together) if saved.hard else (math.fsum(each), float(blur.sum()), False)
    parts = certificate["per_class"] if sums.K > 1 and saved.problem["lines"] == 1 else []
    noun, labels = ("class", saved.classes) if saved.outputs is None else ("output", saved.outputs)
    noun, labels = ("task", saved.header["tasks"]) if saved.tasks else (noun, labels)
    for label, part, figure, *rounding in zip(labels, parts, each, blur, hidden, strict=False):
        yield compare(f"{name} of {noun} {label!s:.60}", part[name], figure, *rounding)
    yield compare(name, certificate[name], *total)
    if saved.kind in ("none", "midway"):  # no constant column: the intercept is 0, or midway between the nearest rows
        apart = (sums.lowest > sums.highest) & np.isfinite(sums.lowest) & np.isfinite(sums.highest)
        middle, blur = np.zeros(sums.K), ALLOWED_DIFFERENCE * saved.sizes + sums.blur
        if saved.kind == "midway":
            middle[apart] = -(sums.lowest[apart] + sums.highest[apart]) / 2.0
        worst = int(np.argmax(np.abs(saved.constant - middle) - blur))
        yield compare(f"bias ({saved.kind})", saved.constant[worst], middle[worst], blur[worst])


def sum_up(saved: Saved, paths: Sequence[Any], names: dict[str, Any], memory: int, learned: bool = True) -> RowSums:
    """The sums over the rows of these files; learned: False for held-out rows, without weights, with any labels."""
    sums, weighted = RowSums(saved, learned), learned and (saved.weighted or names["sample_weight"] is not None)
    for path in map(os.fspath, paths):
        with reading(path, "is not a layout of rows that verify reads", CONVERT), contextlib.ExitStack() as stack:
            file = File(path, names, weighted, stack, len(saved.outputs or ()))
            columns = stored.columns_in(file, saved.columns)
            width = (0 if saved.mapped is None else saved.coef.shape[1]) + (0 if file.sparse else len(columns or ()))
            for rows, X, labels, weights, epsilons, tasks in file.blocks(memory, sums.K + width):
                codes = left(saved.codes(labels), sums.seen, learned and saved.problem.get("left_out"))
                if learned and saved.header["classes"] is None and (at := np.atleast_2d((codes == -1).T).any(0)).any():
                    raise DataError(f"{path}: the label of row {rows[at][0]} is new, {labels[at][0]!s:.60}; change `y`")
                weights = np.where(codes.reshape(len(codes), -1)[:, 0] >= 0, weights, 0.0)  # none of rows left out
                labels = stored.numbers_of(labels[weights > 0], path, rows[weights > 0]) if saved.numeric else labels
                of = np.array(saved.tasks.find_all(np.ravel(tasks).tolist())) if saved.tasks else None
                sums.add(saved.as_trained(stored.taken(X, columns)), labels, codes, weights, epsilons, of)
    if not sums.seen and (mask := names.get("mask")):
        raise DataError(f"no row of {', '.join(map(os.fspath, paths))} has {mask}; name the data of the training")
    return sums


@np.errstate(all="ignore")  # what overflows differs
def verify(model: Any, data: Any, valid: Any = None, *, memory: int = 256 << 20, **names: Any) -> list[Check]:
    """Recompute the certified figures of a saved model on the file, or the shards, that it was trained on.

    valid: the held-out file. memory: bytes for weights and blocks of rows. names: x, y, tasks, sample_weight, if they
    differ from those in training; spooled: files of chosen rows. Raises InputMissingError, DataError, UsageError.
    """
    with reading(os.fspath(model), "is not a model, or damaged", "train it again: streammargin train DATA -o MODEL"):
        saved = Saved(os.fspath(model), memory)
        if valid is not None and (known := known_error(saved.header)) is None:
            raise UsageError(f"{os.fspath(model)} was trained without held-out rows; leave `valid` out")
        called = {**stored.names_of(saved.header, names), "epsilon": saved.column}
        if bool(saved.tasks) != bool(called["tasks"]):
            told = "were an array; name their column in the file with" if saved.tasks else "are unknown here; leave out"
            raise UsageError(f"the tasks of the rows {told} `tasks`")
        shards = [data] if isinstance(data, (str, os.PathLike)) else data
        checks = list(check_all(saved, sum_up(saved, shards, called, memory := memory - 64 * saved.coef.size)))
        checks += [compare("calibration", 0.0, off, ALLOWED_DIFFERENCE) for off in calibrated.off_best(saved.arrays)]
        if valid is not None:
            if os.path.isfile(y if (y := called["y"] or "").endswith(".npy") else y.rpartition(":")[0]):
                called["y"] = None  # labels in a separate file belong to the training rows
            out = sum_up(saved, [valid], called, memory, learned=False)
            rows = max(1, out.rows) * (len(saved.coef) if saved.several else 1)
            error = out.phi if saved.numeric else out.mistakes(round(known * rows))
            checks.append(compare("valid error", known, error / rows, out.slip / rows if saved.numeric else 0.0))
        return checks
