"""The page: a sentence, the first figures, and the cards; and its short form for notebooks."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.files import replacing
from streammargin.options.table import Line, Where, options_for
from streammargin.report.charts import (
    MATRIX_MOST,
    SPREAD,
    bars_chart,
    bars_of,
    confusion_chart,
    costs_chart,
    costs_table,
    course_of,
    gap_chart,
    histogram,
    kind_of,
    name_of,
    tried_in,
)
from streammargin.report.html import STYLE, card, cut, escaped, listed, number, percent, rows_told, seconds, table
from streammargin.wording import in_list, in_shell


@dataclass(frozen=True)
class Facts:
    """What a page is made of.

    `model`     a `streammargin.model.base.Model`.
    `name`      its file.
    `events`    those of its log, or none.
    `judged`    the figures of `Model.evaluate`, and of `wrong_rows`, on the rows `tested`, or None.
    `training`  whether these are the training rows; None: they may be.
    `given`     options by name that header and log do not have, for the command.
    `files`     whether the training rows were in files: then there is a command.
    `part`      of the rows `tested`, such as "the held-out 20%"; "" for all.
    """

    model: Any
    name: str = ""
    events: Sequence[Mapping[str, Any]] = ()
    tested: str = ""
    judged: Mapping[str, Any] | None = None
    training: bool | None = False
    given: Mapping[str, Any] = field(default_factory=dict)
    files: bool = True
    part: str = ""

    @property
    def header(self) -> Mapping[str, Any]:
        """The header of the model."""
        header: Mapping[str, Any] = self.model.header
        return header

    @property
    def labels(self) -> list[str]:
        """The classes as text."""
        return [str(label) for label in self.model.classes_.tolist()]

    @property
    def start(self) -> Mapping[str, Any]:
        """The event of the beginning; {} without a log."""
        return next((one for one in self.events if one["event"] == "run_start"), {})

    @property
    def end(self) -> Mapping[str, Any]:
        """The event of the end; {} without a log."""
        return next((one for one in reversed(self.events) if one["event"] == "run_end"), {})

    @property
    def groups(self) -> str:
        """The column whose equal values the folds keep together; "" for none."""
        return self.start.get("data", {}).get("groups") or ""

    @property
    def words(self) -> Mapping[int, Sequence[tuple[str, int]]]:
        """The words of the judged rows in hashed columns, by column, and how often each occurs; {} if unknown."""
        return (self.judged or {}).get("words", {})

    def named(self, columns: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """These columns, as of `LinearModel.top_features`, hashed ones with their words as the name."""
        called = {column: ", ".join(word for word, _ in words[:WORDS]) for column, words in self.words.items()}
        return [{**one, "name": called.get(one["column"], one["name"])} for one in columns]

    @property
    def told(self) -> str:
        """The judged rows, as HTML, after a word such as "of"."""
        return escaped(" of ".join(filter(None, (self.part, self.tested))))

    @property
    def by_folds(self) -> bool:
        """Whether the held-out error of the header is the mean over folds, and not that of a share of the rows."""
        problem = self.header.get("problem") or {}
        return bool(problem.get("of_folds")) and problem.get("left_out") is None

    @property
    def rows(self) -> str:
        """The rows that were judged, as HTML, after a word such as "wrong"."""
        own = "training and held-out rows" if self.mixed else "training rows"
        return own if self.training else f"rows of {cut(self.part or self.tested, 22)}"

    @property
    def mixed(self) -> bool:
        """Whether the judged rows are those of the training, and those that a share held out."""
        return bool(self.training) and self.model.held_out_rows is not None


BRIEF = 6  # columns of the ranking in a notebook
WORDS = 5  # of a hashed column


def page(of: Facts) -> str:
    """The page as HTML, which needs no other file and runs no script."""
    name = of.start.get("data", {}).get("path") or of.name or "model"
    title = f"Report on {escaped(name)}"
    version = of.start.get("version")
    made = f"Made by streammargin {escaped(version)}" if version else "Made by streammargin"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f'<style>body{{margin:0}}{STYLE}</style></head><body class="smr"><main><h1>{title}</h1>'
        f'<p class="sub">{_subtitle(of)}</p>{_head(of)}<div class="cards">{"".join(cards(of))}</div>'
        f"<footer>{made}. All figures are from the model, its log and the rows that are named.</footer>"
        "</main></body></html>\n"
    )


def write_page(facts: Facts, path: str, force: bool, record: Callable[[str], None] = lambda place: None) -> None:
    """Write the page of these facts, all of it or nothing. Raises DataError, OutputError, ReadWriteError.

    record: called with the place of the whole file, just before it is renamed to `path`.
    """
    try:
        text = page(facts)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if not facts.events:
            raise
        raise DataError(f"an event of the log lacks fields that docs/events.md lists ({error!r})") from error
    with replacing(path, force) as place:
        with open(place, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        record(place)


def brief(of: Facts) -> str:
    """The short form, for a notebook: the sentence, the first figures, and the columns that matter most."""
    top = "".join(rankings(of, BRIEF, 1))
    shown = f'<div class="card">{top}</div>' if top else ""
    return f'<div class="smr"><style>{STYLE}</style><div style="padding:12px">{_head(of)}{shown}</div></div>'


def _subtitle(of: Facts) -> str:
    header, model = of.header, of.model
    what = "regression" if model.numeric else f"{len(of.labels)} classes"
    rows = "" if header.get("rows") is None else f"{_trained_of(of)}{rows_told(header['rows'])} × "
    words = [f"{name} {escaped(header[name])}" for name in ("loss", "penalty", "kernel", "map") if header.get(name)]
    return " · ".join([*_written(of.name), f"{rows}{number(model.answer.features)} columns", what, *words])


def _trained_of(of: Facts) -> str:
    """The number of rows that were trained on, and "of", in front of that of all rows; "" if they are the same."""
    held_out = of.model.held_out_rows
    return "" if held_out is None else f"{number(of.header['rows'] - held_out)} of "


def _written(name: str) -> Iterator[str]:
    """The file of the model, and the day it was written, as the system tells it; nothing if there is no file."""
    with contextlib.suppress(OSError):
        yield f"{escaped(name)} of {time.strftime('%Y-%m-%d', time.localtime(os.path.getmtime(name)))}"


def _head(of: Facts) -> str:
    linear = hasattr(of.model, "coef_") and not of.header.get("map")
    proven, head, why = verdict(of.header, "linear model" if linear else "model")
    coef = getattr(of.model, "coef_", None)
    used = None if coef is None else (int(np.any(coef != 0.0, axis=0).sum()), coef.shape[1])
    return (
        f'<div class="tiles">{tiles(of, used)}</div>'
        f'<div class="verdict{"" if proven else " no"}"><b>{head}</b>{why}</div>{_mixed(of)}{_useless(of)}'
    )


def _mixed(of: Facts) -> str:
    """A warning if the judged rows may be those of the training, or have some that a share held out; else ""."""
    if of.training is None:
        why = "They are as many, and as many go wrong. If so, new rows will go wrong more often."
        return f'<div class="verdict no"><b>These may be the training rows</b>{why}</div>'
    if not of.mixed:
        return ""
    return (
        f'<div class="verdict no"><b>{_trained_of(of)}{number(of.header["rows"])} judged rows were trained on</b>'
        "New rows will go wrong about as often as the held-out ones.</div>"
    )


def _useless(of: Facts) -> str:
    """A warning if the judged rows have as many errors as the simplest guess; else ""."""
    label, share = _simplest(of) or ("", 0.0)
    name, hint = "accuracy", "If classes are rare, try --class-weight balanced."
    if of.header.get("class_weight") is not None:  # errors of rare classes cost more: each class counts once
        name, hint = "balanced_accuracy", ""
        if of.end.get("trials"):
            hint = "Held-out errors that choose C hardly count a rare class: name one -C."
        share = 1.0 - 1.0 / max(1, sum(one["rows"] > 0 for one in (of.judged or {}).get("per_class") or []))
    if not label or 1.0 - (of.judged or {}).get(name, 1.0) < share - 1e-9:
        return ""
    return (
        f'<div class="verdict no"><b>No better than always guessing {cut(label, 20)}</b>'
        f"The columns may not tell the classes apart, or C is too small. {hint}</div>"
    )


RANKED_COLUMNS = 12
SHOWN_CLASSES = 20  # most classes with a ranking and with a line of figures


PROVEN = {
    "primal": "objective of these weights", "dual": "no objective is below", "gap": "gap: their relative distance",
    "mean_gap": "gap for each row, in units of loss", "margin_lower": "margin", "margin_upper": "no margin is above",
    "margin_gap": "their relative distance", "residual": "worst row beyond its tolerance",
}  # fmt: skip
TRAINED = {"train_error": "share of wrong training rows", "mistakes": "wrong training rows",
           "valid_error": "error of the held-out rows"}  # fmt: skip
JUDGED = {
    "accuracy": "accuracy", "subset_accuracy": "rows with all labels right", "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1", "roc_auc": "ROC AUC", "average_precision": "average precision", "log_loss": "log loss",
    "loss": "mean loss", "mean_squared_error": "mean squared error", "mean_absolute_error": "mean absolute error",
    "largest_error": "largest error", "r2": "R²",
}  # fmt: skip


def cards(of: Facts) -> Iterator[str]:
    """All cards, in the order of the questions; "" for one that has no answer."""
    training = "training " if of.training and not of.mixed else ""
    yield card("How good is it on training rows?" if of.training else "How good is it?", *_good(of))
    yield card("Which C?", *_costs(of))
    yield card(f"Which {training}rows go wrong?", *_wrong(of))
    yield card(f"Which {training}rows are the worst?", *_worst(of))
    charts = list(rankings(of, RANKED_COLUMNS, SHOWN_CLASSES))
    yield card("Which columns matter?", explained(of, bool(charts)), *charts)
    yield card("What are the data?", "", listed(_data(of)))
    yield card("How was it trained?", *_proven(of))
    yield card("How is it repeated?", *_repeat(of), wide=True)


def _proven(of: Facts) -> Iterator[str]:
    certificate, header = of.header.get("certificate") or {}, of.header
    if kind_of(certificate) is None:
        yield "No figure was certified, so nothing is known about how far the weights are from the best ones."
    else:
        what = "objective" if certificate.get("margin_gap") is None else "largest margin"
        yield f"The {what} lies between two bounds. The certificate has both, for these weights on all training rows."
    course = course_of(of.events, header)
    yield gap_chart(course) if course is not None else ""
    pairs = list(_named(certificate, PROVEN))
    pairs += [("tolerance asked for", escaped(header["tol"]))] if header.get("tol") is not None else []
    pairs += [("passes over the rows", number(header["passes_done"]))] if header.get("passes_done") is not None else []
    if of.model.calibration:
        rows = "that the folds left out" if of.by_folds else "that the training did not see"
        pairs.append(("probabilities", f"calibrated by {escaped(header['calibrate'])}, from scores of rows {rows}"))
    yield listed(pairs)


def _named(figures: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those of the figures that are known, with their names."""
    return ((name, number(figures[key])) for key, name in names.items() if figures.get(key) is not None)


def _good(of: Facts) -> Iterator[str]:
    judged = of.judged
    if judged is None:
        yield "No rows were judged for this page: give labelled ones with <code>--test</code>. The training knows this:"
        held_out = {"valid_error": "mean error over the folds"} if of.by_folds else {}
        yield listed(_named(of.header.get("certificate") or {}, {**TRAINED, **held_out}))
        return
    left = "" if of.model.held_out_rows is None else f", and {number(of.model.held_out_rows)} that were held out"
    own = f" These are the training rows{left}: new rows will go wrong more often." if of.training else ""
    folds = list(_over_folds(of)) if of.training else []
    own += " The error over folds is of rows that a training had not seen." if folds else ""
    own += f" No {cut(of.groups)} is on both sides." if folds and of.groups else ""
    yield f"Figures of {rows_told(judged['rows'])} of {of.told}, defined as in scikit-learn.{own}"
    yield listed([*folds, *_named(judged, JUDGED)])
    classes = judged.get("per_class") or []
    shown = sorted(classes, key=lambda one: one["f1"])[:SHOWN_CLASSES] if len(classes) > SHOWN_CLASSES else classes
    if shown:
        more = f" (the {SHOWN_CLASSES} with the smallest F1)" if len(classes) > SHOWN_CLASSES else ""
        yield f"<h3>By class{more}</h3>"
        yield table(
            ["class", "rows", "precision", "recall", "F1"],
            [[cut(one["label"]), number(one["rows"]), *(number(one[key], 3) for key in ("precision", "recall", "f1"))]
             for one in shown],
        )  # fmt: skip
    outputs = judged.get("per_output") or []
    if outputs:
        kind = "accuracy" if outputs[0].get("accuracy") is not None else "mean_squared_error"
        yield table(["output", kind.replace("_", " ")], [[cut(one["output"]), number(one[kind])] for one in outputs])


def _costs(of: Facts) -> Iterator[str]:
    tried = tried_in(of.events, of.header)
    if tried is None:
        cost = number(float(of.header["C"])) if of.header.get("C") is not None else None
        if cost is not None and not of.end:
            yield f"The model has C = {cost}. The end of the log of its training has all values that were tried."
            return
        if cost is None:
            yield ""
            return
        held_out = (of.header.get("certificate") or {}).get("valid_error") is not None
        yield (
            f"One value was tried: C = {cost}. Several are compared on {'the ' * held_out}held-out rows by "
            f"<code>-C 0.01,0.1,1,10{' --valid DATA' * (not held_out)}</code>."
        )
        return
    of_folds = any(spread is not None for spread in tried.spreads)
    folds = "Held-out errors are means over folds, with their standard errors. " if of_folds else ""
    by_se = "rule=1se" in str(of.start.get("params", {}).get("cv"))
    least = "the least" if not by_se else "at most one standard error above the least"
    what = "share of wrong held-out rows" if tried.share else "mean loss of held-out rows"
    why = f", the smallest whose {what} is {least}" if any(one is not None for one in tried.held_out) else ""
    yield (
        f"C weighs the errors against the penalty. Of {len(tried.costs)} values {tried.best:g} is kept{why}. "
        f"{folds}The last column has the gap of the model behind each error."
    )
    yield costs_chart(tried)
    yield costs_table(tried)


def _wrong(of: Facts) -> Iterator[str]:
    judged = of.judged
    if judged is None:
        yield ""
        return
    matrix, numeric = judged.get("confusion"), "mean_squared_error" in judged
    wrong = None if numeric else judged.get("mistakes")
    told = "." if wrong is None else f", {number(wrong)} {'is' if wrong == 1 else 'are'} wrong."
    yield f"Of {rows_told(judged['rows'])} of {of.told}{told}"
    if matrix is not None and len(matrix) <= MATRIX_MOST:
        yield confusion_chart([one["label"] for one in judged["per_class"]], matrix)
    elif pairs := judged.get("most_confused"):
        rows = [[cut(one["label"]), cut(one["predicted"]), number(one["rows"])] for one in pairs]
        yield "<h3>Classes that are taken for another most often</h3>" + table(["class", "taken for", "rows"], rows)
    if judged.get("distances") and (chart := histogram(judged["distances"], numeric)):
        yield f"<h3>{'Errors' if numeric else 'How far rows are on either side'}</h3>{chart}"


def _worst(of: Facts) -> Iterator[str]:
    worst, numeric = (of.judged or {}).get("worst"), of.model.numeric
    if not worst:
        yield ""
        return
    score = "" if numeric else " The score tells how far a row is on the side of its class; below 0 is wrong."
    yield (
        f"Rows of {of.told} that are most wrong. The first record is row 0, and a record with line breaks "
        f"counts once.{score}"
    )
    names = [cut(one.rpartition(":")[2], 20) for one in (of.judged or {}).get("id", ())]
    yield table(
        ["row", *names, "target" if numeric else "class", "predicted", "error" if numeric else "score"],
        [[number(one["row"]), *(cut(each, 20) for each in one.get("ids", ())),
          _told(one["label"]), _told(one["predicted"]), number(one["distance"], 3)]
         for one in worst],
    )  # fmt: skip


def _told(value: Any) -> str:
    return cut(value, 20) if isinstance(value, str) else number(value)


def _data(of: Facts) -> Iterator[tuple[str, str]]:
    data, header, model = of.start.get("data", {}), of.header, of.model
    if data.get("path"):
        yield "training rows", escaped(data["path"])
    if header.get("rows") is not None:
        held_out = "" if model.held_out_rows is None else f", {number(model.held_out_rows)} held out"
        yield "rows", f"{_trained_of(of)}{number(header['rows'])}{held_out}"
    yield "columns", number(model.answer.features)
    if data.get("nnz") is not None and header.get("rows"):
        share = data["nnz"] / (header["rows"] * max(1, model.answer.features))
        yield "stored values", f"{number(data['nnz'])} ({percent(share)})"
    if of.labels:
        shown = ", ".join(cut(label, 20, in_list) for label in of.labels[:SHOWN_CLASSES])
        yield "classes", shown + (f" … ({number(len(of.labels))} in all)" if len(of.labels) > SHOWN_CLASSES else "")
    if header.get("label_column") is not None:
        yield "label", escaped(header["label_column"])
    if model.feature_names_in_ is not None:
        names = [cut(name, 20, in_list) for name in model.feature_names_in_[:8]]
        yield "names", ", ".join(names) + (" …" if len(model.feature_names_in_) > 8 else "")
    if header.get("scale", "none") != "none":
        yield "scaled by", escaped(header["scale"])
    if data.get("fingerprint"):
        yield "fingerprint", escaped(data["fingerprint"])
    if of.tested:
        yield "judged rows", of.told


def _repeat(of: Facts) -> Iterator[str]:
    if not of.files:
        yield "The same call of streammargin.train, on the same rows, makes the same model."
        return
    command = repeated(of)
    version = of.start.get("version")
    if command is None:
        yield "Give the log to the report to see the command, as it has the name of the data."
    else:
        same = f"version {escaped(version)}" if version else "the same version"
        lacks = of.model.calibration and " --calibrate " not in command
        what = "weights, but not the calibration of probabilities," if lacks else "model"
        yield f"On the same rows, {same} makes the same {what} with this command:"
        yield f"<pre>{escaped(command)}</pre>"
    data = of.given.get("data") or [of.start.get("data", {}).get("path", "DATA")]
    yield '<p class="note">This recomputes the objective and the mistakes by NumPy alone:</p>'
    yield f"<pre>{escaped(shlex.join(['streammargin', 'verify', of.name or 'MODEL', *data]))}</pre>"


def explained(of: Facts, any_there: bool) -> str:
    """The sentences above the charts of weights."""
    if not any_there:
        linear = hasattr(of.model, "coef_")
        return "" if linear else "This model compares rows with rows, and has no weight for a column."
    hashed = of.model.schema is not None and of.model.schema.hashed
    words = (
        f" streammargin info MODEL --top {RANKED_COLUMNS} --words TABLE names the words of numbered columns." * hashed
    )
    words = f" Hashed columns have the words of {escaped(of.tested)}, the most frequent first." if of.words else words
    if remark := in_shell(of.model.remark):
        words += f" Beware: {escaped(remark)}."
    measured = of.header.get("measured_rows")
    if of.model.moments is None or measured is None:
        return (
            "Columns by their weights. The weights of columns of small numbers are large: their spread is not known."
            + words
        )
    every = "the training rows" if of.model.held_out_rows is None else "all rows"
    rows = every if measured == of.header.get("rows") else f"{number(measured)} of {every}"
    return (
        "A weight times the standard deviation of its column tells how much the column moves the score. Beside it is "
        f"the weight for the column as stored. Standard deviations are from {rows}.{words}"
    )


def rankings(of: Facts, count: int, classes: int) -> Iterator[str]:
    """Columns that matter: over all classes first, then those of each, folded up if there are several."""
    model = of.model
    if not hasattr(model, "top_features"):
        return
    parts = [part for part in model.top_features(count) if part["features"]]
    if len(parts) > 1:
        bars = [(name_of(one), one["effect"], (one["effect"],)) for one in of.named(model.top_columns(count))]
        overall = bars_chart(bars, ("effect",), "Columns that matter for all classes")
        yield f"<h3>For all classes together</h3>{overall}"
    against = f" against {cut(of.labels[0])}" if len(of.labels) == 2 and model.outputs is None else ""
    for place, part in enumerate(parts[:classes]):
        label = "the prediction" if part["label"] is None else f"{cut(part['label'])}{against}"
        chart = bars_chart(*bars_of(of.named(part["features"])), "Columns that matter most")
        if len(parts) == 1:
            yield f"<h3>For {label}</h3>{chart}"
        elif classes > 1:
            yield f"<details{' open' * (place == 0)}><summary>For {label}</summary>{chart}</details>"
    if len(parts) > classes > 1:
        yield f'<p class="note">{len(parts) - classes} more: streammargin info MODEL --top {count} lists all.</p>'


REASONS = {
    "passes": "it ran out of passes", "seconds": "it ran out of time", "signal": "it was interrupted",
    "early_stop": "early stopping kept the pass with the smallest held-out error",
    "separated": "the rows are separated, and this solver stops there",
    "not_separable": "no hyperplane separates the rows, which is proven",
    "small_margin": "no separator with a margin above the tolerance was found",
    "tolerance": "a weaker proof was asked for",
}  # fmt: skip


def _bound(share: float) -> str:
    """A share, rounded up, as text that "within" and "more than" may precede."""
    unit = 10.0 ** (math.floor(math.log10(share)) - 2) if share > 0.0 else 1.0
    return percent(math.ceil(share / unit) * unit).removeprefix("less than ")


def verdict(header: Mapping[str, Any], kind: str = "model") -> tuple[bool, str, str]:
    """(whether the tolerance is proven, a headline, a sentence that explains it), both HTML; kind: of the model."""
    certificate = header.get("certificate") or {}
    gap, margin, residual = (certificate.get(name) for name in ("gap", "margin_gap", "residual"))
    if header.get("converged") and gap is not None:
        gap = _bound(gap)
        return True, f"Proven: within {gap} of the smallest objective", (
            f"No {kind} with these options has an objective more than {gap} below this one. "
            "This is on the training alone, and says nothing of new rows."
        )  # fmt: skip
    if header.get("converged") and margin is not None:
        low, high = (number(certificate.get(name)) for name in ("margin_lower", "margin_upper"))
        return True, f"Proven: within {_bound(margin)} of the largest margin", (
            f"The margin is {low}. No hyperplane has one above {high}."
        )  # fmt: skip
    if header.get("converged") and residual is not None:
        text = f"No training row is more than {number(residual)} beyond its tolerance."
        return True, "Proven: each target is met", text
    why = REASONS.get(str(header.get("reason")), "the rows were read only once")
    known = gap if gap is not None else margin
    text = "No gap was certified." if known is None or math.isinf(known) else f"The certified gap is {percent(known)}."
    wanted = f" The tolerance was {escaped(header['tol'])}." if header.get("tol") is not None else ""
    return False, "Not proven to the tolerance", f"The training stopped because {why}. {text}{wanted}"


def tiles(of: Facts, nonzeros: tuple[int, int] | None) -> str:
    """The first figures, each with its name; nonzeros: columns with a weight, and all columns."""
    folds = [] if of.judged is not None and not of.training else [*_over_folds(of)]
    found = [*folds, *_quality(of, bool(folds))]
    found[1:1] = _guess(of)
    found += _trained(of, nonzeros)
    return "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in found)


def _simplest(of: Facts) -> tuple[str, float] | None:
    """The class with most of the judged rows, and the share of the other rows; None without classes."""
    classes = (of.judged or {}).get("per_class") or []
    if not classes or of.model.outputs is not None:
        return None
    most = max(classes, key=lambda one: one["rows"])
    return str(most["label"]), 1.0 - most["rows"] / max(1, sum(one["rows"] for one in classes))


def _guess(of: Facts) -> Iterator[tuple[str, str]]:
    """The error of the simplest guess: each row is of the class with most of the judged rows."""
    if (found := _simplest(of)) is not None:
        yield f"wrong if the guess is always {cut(found[0], 20)}", percent(found[1])


def _over_folds(of: Facts) -> Iterator[tuple[str, str]]:
    """The error over folds at the C of the model, and its standard error."""
    for one in of.end.get("trials") or []:
        if one["C"] == of.header.get("C") and one.get(SPREAD) is not None:
            share = (of.header.get("certificate") or {}).get("train_error") is not None
            what, told = ("wrong held-out rows", percent) if share else ("mean loss of held-out rows", number)
            value = f"{told(one['valid_error'])} <small>± {told(one[SPREAD])}</small>"
            yield f"{what} over {len(one['folds'])} folds{f' by {cut(of.groups)}' if of.groups else ''}", value


def _quality(of: Facts, by_folds: bool) -> Iterator[tuple[str, str]]:
    """Figures of the judged rows, or else of the training; its held-out error, unless folds have told it."""
    certificate, judged = of.header.get("certificate") or {}, of.judged
    error, share = certificate.get("valid_error"), certificate.get("train_error") is not None
    if error is not None and not by_folds and (judged is None or of.training is not False):
        over = " over the folds" * of.by_folds
        yield (f"wrong held-out rows{over}", percent(error)) if share else (f"held-out error{over}", number(error))
    if judged is not None and judged.get("accuracy") is not None:
        yield f"wrong {of.rows}", percent(1.0 - judged["accuracy"])
        if judged.get("roc_auc") is not None:
            yield f"ROC AUC of {of.rows}", number(judged["roc_auc"])
        elif judged.get("balanced_accuracy") is not None:
            yield f"balanced accuracy of {of.rows}", percent(judged["balanced_accuracy"])
    elif judged is not None and judged.get("mean_squared_error") is not None:
        if judged.get("r2") is not None:
            yield f"R² of {of.rows}", number(judged["r2"])
        yield f"mean absolute error of {of.rows}", number(judged["mean_absolute_error"])
    if share and (of.mixed or not of.training):
        yield "wrong training rows", percent(certificate["train_error"])


def _trained(of: Facts, nonzeros: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    header, compiling = of.header, of.end.get("compile_seconds") or 0.0
    if header.get("C") is not None:
        yield "C", number(float(header["C"]))
    if nonzeros is not None:
        yield f"of {number(nonzeros[1])} columns have a weight", number(nonzeros[0])
    elif header.get("support") is not None:
        yield "support rows", number(header["support"])
    if header.get("seconds") is not None:
        beside = f", and {seconds(compiling)} of compiling" if compiling >= SHORT_COMPILING else ""
        yield f"of training{beside}", seconds(max(0.0, float(header["seconds"]) - compiling))


SHORT_COMPILING = 1.0  # in seconds: it needs no words


def repeated(of: Facts) -> str | None:
    """The command that trains the model again, under a new name; None if no log or option tells what the data are."""
    header, given, start = of.header, of.given, of.start
    data = given.get("data") or [start["data"]["path"]] if start or given.get("data") else None
    if data is None:
        return None
    params = {**header, **start.get("params", {}), "spool": None}  # rows are spooled beside the model
    several = isinstance(params.get("C"), (list, tuple)) or str(params.get("C")).startswith("path")
    if all(one is None for one in (given.get("valid"), given.get("cv"), params.get("valid"), params.get("cv"))):
        params |= {"calibrate": None, **({"C": header["C"]} if several else {})}  # no rows to choose by are known
    elif isinstance(params.get("C"), list):
        params["C"] = list(dict.fromkeys(params["C"]))  # which each fold repeats
    if start.get("solver"):
        params["solver"] = "auto"  # which chose it
    names, schema = dict((header.get("problem") or {}).get("names") or {}), header.get("table")
    names |= {"columns": params.get("columns") or names.get("columns")}  # the model knows chosen ones as common
    if schema is not None:
        own = {"y": schema["labels"], "sample_weight": schema.get("weight")}
        names |= {name: column for name, column in own.items() if column}  # those in files of their own stay
    words = ["streammargin", "train", *data]
    for line in options_for(Where.SHELL):
        value = given.get(line.name, names.get(line.name) or params.get(line.name))
        words += _words(line, value)
    stem, ending = os.path.splitext(of.name)
    return shlex.join([*words, *(["-o", f"{stem}.again{ending}"] if of.name else [])])


def _words(line: Line, value: Any) -> list[str]:
    """An option as the shell has it; nothing for its default."""
    if value is None or value is False or str(value) == str(line.default) or value == line.default:
        return []
    flag = f"--{line.name.replace('_', '-')}"
    return [flag] if value is True else [flag, spelt(value)]


def spelt(value: Any) -> str:
    """A value as text that the option reads."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={spelt(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(spelt, value))
    return f"{value:.17g}" if isinstance(value, float) and float(f"{value:g}") != value else _number(value)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
