"""The result of a training, and the warnings about it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from streammargin.files import as_path, check_apart, check_output
from streammargin.model.base import Model
from streammargin.model.wrong import wrong_rows
from streammargin.ordered import files_read
from streammargin.report.page import Facts, write_page
from streammargin.report.page import brief as brief_page
from streammargin.report.plots import plot
from streammargin.sources.open import paths_of
from streammargin.wording import brief, counted, in_list


@dataclass(frozen=True, repr=False)
class Certificate:
    """Exact figures of a model's weights, and whether they prove the tolerance.

    A figure is None if it is not defined: margins need C = inf, the gap a dual. All are None if a signal ended the run
    or the rows were a stream, except margin_upper for a hard margin. For several classes, primal and dual are sums,
    gaps are the largest of any class, and margins the smallest. The figures of each class are in per_class, which has
    one entry for a joint margin. A midway bias counts for mistakes, but not for margins.
    """

    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
    mean_gap: float | None = None
    margin_lower: float | None = None
    margin_upper: float | None = None
    margin_gap: float | None = None
    residual: float | None = None
    mistakes: int | None = None
    train_error: float | None = None
    valid_error: float | None = None
    per_class: list[dict[str, Any]] | None = None
    converged: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The figures by name, as in events and model files."""
        return {figure.name: getattr(self, figure.name) for figure in fields(self)}

    def __getitem__(self, name: str) -> Any:  # like the event, a dict
        return self.to_dict()[name]

    def __contains__(self, name: object) -> bool:
        return name in self.to_dict()

    def __repr__(self) -> str:
        return brief(self, **{**self.to_dict(), "per_class": None})


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """Errors of folds: of each value of C the trainings without one fold, judged on the rows of that fold.

    Cs : (m,), the values of C
    errors : (folds, m), the share of wrong rows, or the mean loss of numbers; each row counts once

    mean, se : (m,), over the folds, and its standard error, the standard deviation over the root of their number

    gaps : (m,), the worst certified gap of the trainings with a C, that of all rows included
    best : an index into Cs
    """

    Cs: np.ndarray
    errors: np.ndarray
    mean: np.ndarray
    se: np.ndarray
    gaps: np.ndarray
    best: int

    def __repr__(self) -> str:
        best = self.best
        return brief(self, C=self.Cs[best], mean=self.mean[best], se=self.se[best], folds=len(self.errors))


@dataclass(repr=False)
class TrainResult:
    """The return value of `train`.

    model : a LinearModel, with `coef_` and `intercept_`
    certificate : Certificate of the weights in `model`
    history : list of event dicts

    reason : tolerance | separated | passes | seconds | signal | not_separable | small_margin | early_stop

    resumable : whether the run was stopped early and its state saved; the same call then resumes it
    better : whether `auto` would have chosen another solver than the named one

    limit : what ended another one of several values of C, "" if nothing did
    ranges : the warning about columns of very different ranges, or None

    hidden : for the reason small_margin, whether rounding hides a smaller margin
    cramped : bytes of memory with which far fewer passes would be enough, or 0

    cross_validation : CrossValidation, with `cv`; else None
    trials : with folds, the points of all trainings: each C without each fold, and last with all rows
    """

    model: Model
    certificate: Certificate
    history: list[dict[str, Any]]
    reason: str
    converged: bool
    passes: int
    seconds: float
    run_end: dict[str, Any] = field(default_factory=dict)
    resumable: bool = False
    replaced: bool = False
    better: bool = False
    limit: str = ""
    ranges: str | None = None
    hidden: bool = False
    cramped: int = 0
    cross_validation: CrossValidation | None = None
    trials: Any = None

    def __repr__(self) -> str:
        proven = {name: self.certificate[name] for name in ("gap", "margin_gap", "residual", "valid_error")}
        how = {name: getattr(self, name) for name in ("reason", "converged", "passes", "seconds")}
        return brief(self, model=type(self.model).__name__, **how, **proven)

    def _repr_html_(self) -> str:
        """What notebooks show: whether it is proven, the first figures, and the columns that matter most."""
        return brief_page(self._facts())

    def plot(self, kind: str = "gap", ax: Any = None) -> Any:
        """Draw by matplotlib, on `ax` or on new Axes; returns the Axes.

        kind: "gap", of each pass; "C", the errors of each value of C; "weights", the columns that matter most. Raises
        UsageError if the training has nothing of this kind, and where matplotlib is missing.
        """
        return plot(self._facts(), kind, ax)

    def report(self, path: str | os.PathLike[str], data: Any = None, *, force: bool = False, **asked: Any) -> None:
        """Write the page of `--report` as HTML.

        data: labelled rows to judge the model on, as for `Model.evaluate`, whose other arguments these are; also id, a
        tuple of columns that name the worst rows. force: replace an existing file. Raises OutputError, and as
        `Model.evaluate` does.
        """
        path, paths = as_path(path), paths_of(data)
        check_apart({"the report": path}, files_read(paths))
        check_output(path, force)
        judged = None if data is None else wrong_rows(self.model, data, **asked)
        told = ", ".join(paths) or "the data given"
        trained = next((one["data"]["path"] for one in self.history if one["event"] == "run_start"), "")
        own, files = self.model.was_trained_on(judged or {}, paths == [trained]), os.path.exists(trained)
        facts = Facts(self.model, "", self.history, told if judged else "", judged, own, files=files)
        write_page(facts, path, force)

    def _facts(self) -> Facts:
        return Facts(self.model, events=self.history)


WORSE_THAN_SHARES = 1.01  # times the log loss of the shares of the classes: a larger one is worse than theirs
SHOWN_VALUES = 20  # labels, or values of C, in a message
FAR_GAP_RATIO = 10.0  # a gap above so many tolerances will hardly close by more passes alone
FLAT_FALL_OF_FOLDS = 0.1  # of a standard error: a smaller fall of the folds' errors is none
JOINED = ("l21", "l1inf", "trace")
LEAST_TOLERANCE = 1e-8  # a gap below this counts as near any tolerance: sums over many rows are hardly more exact


def remarks(result: TrainResult) -> Iterator[tuple[str, str]]:
    """(code, text) of each warning at the end of a training; options in backquotes (see wording.py)."""
    if result.reason == "signal":
        if not result.run_end.get("chosen", True):
            told = "stopped before the held-out errors were known: no `C` was chosen"
            yield "unchosen", f"{told}, and the model is that of C = {result.model.header['C']:g}"
        return
    # with early stopping the best pass need not be the one that reached the tolerance
    if not result.converged and result.reason not in ("tolerance", "early_stop"):
        yield "not_converged", advice(result)
    elif result.limit:
        yield "unproven", unproven(result)
    for code, beside in (("never_predicted", ""), ("rarely_predicted", ", less than a tenth as often as in the rows")):
        if classes := result.run_end.get(code):
            yield code, f"{code.replace('_', ' ')}: {_listed(classes)}{beside}{_to_predict_more(result)}"
    if _apart(result.model):
        word = str(result.model.header["penalty"]).partition(":")[0]
        yield "tasks", f"no column has a weight in two tasks, so `penalty={word}` joins none; check the columns"
    rare = any(result.run_end.get(code) for code in ("never_predicted", "rarely_predicted"))
    edge = _edge(result.run_end.get("trials") or [], result.run_end.get("C"), rare or _empty(result.model))
    if edge is not None:
        yield "edge", edge
    loss, shares = result.model.header.get("train_loss"), result.run_end.get("shares_loss")
    sound = result.converged and not rare
    if sound and loss is not None and shares is not None and loss > WORSE_THAN_SHARES * shares:
        told = f"mean loss {loss:.4g}, and {shares:.4g} for the shares alone"
        hint = "use `bias=free`, a larger `C` or `calibrate=sigmoid`"
        yield "probabilities", f"the probabilities tell less than the shares of the classes: {told}; {hint}"


def _empty(model: Any) -> bool:
    """Whether all weights are 0."""
    weights = getattr(model, "coef_", None)
    return weights is not None and not weights.any()


def _listed(classes: list[str]) -> str:
    more = f" and {len(classes) - SHOWN_VALUES} more" if len(classes) > SHOWN_VALUES else ""
    return f"{counted(len(classes), 'class')} ({', '.join(map(in_list, classes[:SHOWN_VALUES]))}{more})"


def _to_predict_more(result: TrainResult) -> str:
    """What may help if a class is hardly predicted; options in backquotes."""
    asked = result.model.header
    hints = [] if math.isinf(asked["C"]) else ["a larger `C`"]
    errors = {one["valid_error"] for one in result.run_end.get("trials") or []}
    alike = len(errors) == 1 and len(result.run_end["trials"]) > 1
    if result.ranges is not None:
        hints = ["`scale=std`"]
    elif hints and asked["class_weight"] is None:
        hints = ["`class_weight=balanced`", *(["`loss=logistic`"] if alike and asked["loss"] != "logistic" else hints)]
    tied = "; all values of `C` have the same held-out error, so the smallest is taken" if alike else ""
    return f"{tied}; try {' or '.join(hints)}" if hints else tied


def _apart(model: Any) -> bool:
    """Whether weights of several tasks have no column in common."""
    if not getattr(model, "tasks", None) or str(model.header["penalty"]).partition(":")[0] not in JOINED:
        return False
    tasks = np.count_nonzero(model.coef_, axis=0)
    return bool(tasks.max(initial=0) == 1 and np.count_nonzero(model.coef_.any(axis=1)) > 1)


def _edge(trials: list[dict[str, Any]], best: float | None, few: bool) -> str | None:
    """The warning for a best C that is the smallest or the largest of those tried, if its error is above 0 and falls.

    few: whether a class is hardly predicted or all weights are 0; a smaller C would not mend that.
    """
    known = {one["C"]: one for one in trials if "passes" not in one}  # not those of a path
    given = sorted(known)
    if len(given) < 2 or best not in (given[0], given[-1]) or best == math.inf or (few and best == given[0]):
        return None
    size, more, beside = ("smallest", "smaller", 1) if best == given[0] else ("largest", "larger", -2)
    error, noise = known[best]["valid_error"], FLAT_FALL_OF_FOLDS * known[best].get("valid_error_se", 0.0)
    if not error or not known[given[beside]]["valid_error"] - error > noise:  # None: nothing was judged
        return None
    return f"the best C, {best:g}, is the {size} of those tried; a {more} one may be better still: list some in `C`"


def advice(result: TrainResult) -> str:
    """The warning for a training that did not converge, with a remedy; options in backquotes (see wording.py)."""
    certificate, asked = result.certificate, result.model.header
    if certificate.residual is not None:
        return unmet(result)
    if result.reason in ("not_separable", "small_margin"):
        return no_margin(result)
    if result.reason == "separated":
        return separated(result)
    if result.run_end.get("unproven") and asked["C"] not in result.run_end["unproven"]:
        return unproven(result)
    limit = "`max_seconds`" if result.reason == "seconds" else "`passes`"
    kind = "mean gap" if isinstance(asked["tol"], str) else "margin gap" if certificate.gap is None else "gap"
    gap, tol = certificate[kind.replace(" ", "_")], float(str(asked["tol"]).rpartition(":")[2])
    far = gap is None or gap > FAR_GAP_RATIO * max(tol, LEAST_TOLERANCE)
    others, more = ["use `solver=auto`"] if result.better else [], f"raise {limit}"
    stalled = result.reason == "passes" and result.passes < asked["passes"]  # more of them would change nothing
    if stalled:
        more = "raise"
    hints = ", ".join([*others, more])
    if result.cramped:
        hints = ", ".join([*others, f"use `memory={-(-result.cramped >> 20)}M` or more", more])
    elif result.reason == "seconds" and (result.run_end.get("compile_seconds") or 0.0) > result.seconds / 2:
        hints = ", ".join([*others, f"run it again, as most seconds went into compiling, which is kept, or {more}"])
    elif far and result.ranges is not None:  # then C is not the cause
        hints = "; ".join([*others, result.ranges, f"else {more}"])
    elif far and not math.isinf(asked["C"]):
        hints = ", ".join([*others, "use a smaller `C`", more])
    known = "no gap was certified" if gap is None or math.isinf(gap) else f"the certified {kind} is {gap:.1e}"
    by = "" if result.reason == "passes" else f" by {result.reason}"
    stopped = f"not converged: stopped{by} after {counted(result.passes, 'pass')} when {known}"
    near = f"{'far from' if far else 'near'} the tolerance {tol:g}"
    if tol == 0.0:
        near = "and a gap of exactly 0 is rarely reached"
    if stalled and asked.get("kernel") and known.startswith("no gap"):  # an indefinite one
        return f"{stopped}, and no step helps any more; use a kernel that is positive semidefinite, as `kernel=rbf`"
    if stalled:
        cause = "no step helps any more" if far else "rounding hides the rest of the gap"
        return f"{stopped}, {near}, and {cause}; {hints} `tol`"
    return f"{stopped}, {near}; {hints} or `tol`"


def unproven(result: TrainResult) -> str:
    """The warning for values of C that are not proven, though that of the model is; options in backquotes."""
    asked, costs = result.model.header, result.run_end["unproven"]
    listed = ", ".join(f"{C:g}" for C in costs[:SHOWN_VALUES]) + (
        f" and {len(costs) - SHOWN_VALUES} more" if costs[SHOWN_VALUES:] else ""
    )
    by_time = (result.limit or result.reason) == "seconds"
    hint = "raise `max_seconds`" if by_time else "raise `passes`" if result.passes >= asked["passes"] else "raise `tol`"
    return f"not proven: C = {listed}; the model is that of C = {asked['C']:g}, which is proven; {hint}"


def separated(result: TrainResult) -> str:
    """The warning for a solver that stops once the rows are separated; options in backquotes (see wording.py)."""
    return (
        f"the rows are separated, and `solver={result.model.header['solver']}` stops there; the margin is "
        f"{result.certificate.margin_lower:.3g}, the largest possible at most {result.certificate.margin_upper:.3g}; "
        "to maximise it use `solver=auto`"
    )


def no_margin(result: TrainResult) -> str:
    """The warning for rows without a separator, options in backquotes (see wording.py)."""
    upper = min(one["margin_upper"] for one in result.certificate.per_class or [])
    bias, kernel = result.model.header["bias"], result.model.header["kernel"]
    finite = "train with a finite `C` and `solver=auto`"
    hint = finite if bias or kernel else f"add a constant column, `bias=1`, or {finite}"  # kernels take no such column
    through = "" if bias == "free" else " through the origin"
    if result.reason == "not_separable":
        return f"no hyperplane{through} separates the rows, which is proven; {hint}"
    found = f"no separator was found, and none{through} has a margin above {upper:.3g}"
    if result.hidden:
        return f"{found}; rounding hides a smaller one; {hint}"
    return (
        f"{found}, which is below {result.run_end['smallest_margin']:.3g}, `tol` times the mean row norm; lower `tol`, "
        f"or {hint}"
    )


def unmet(result: TrainResult) -> str:
    """The warning for targets that were not interpolated, options in backquotes (see wording.py)."""
    certificate = result.certificate
    least = math.sqrt(2.0 * max(certificate.dual or 0.0, 0.0))
    return (
        f"stopped by {result.reason} with a residual {certificate.residual:.3g} above epsilon; interpolating weights, "
        f"if any exist, have ||w||_p >= {least:.3g}; raise `passes` or `tol`, or allow a larger epsilon, as in "
        "`loss=interpolate:0.1`"
    )
