"""The cards of the page, each of which answers a question of a reader who did not make the model."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from streammargin.report import confusion, costs, gap, histogram
from streammargin.report.columns import explained, rankings
from streammargin.report.command import repeated
from streammargin.report.facts import Facts
from streammargin.report.text import card, cut, escaped, listed, number, percent, table

TOP = 12  # columns of a ranking
CLASSES = 20  # most classes with a ranking and with a line of figures


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
    yield card("Is it proven?", *_proven(of))
    yield card("How good is it?", *_good(of))
    yield card("Which C?", *_costs(of))
    yield card("Which rows go wrong?", *_wrong(of))
    yield card("Which are the worst?", *_worst(of))
    charts = list(rankings(of, TOP, CLASSES))
    yield card("Which columns matter?", explained(of, bool(charts)), *charts)
    yield card("What are the data?", "", listed(_data(of)))
    yield card("How is it repeated?", *_repeat(of), wide=True)


def _proven(of: Facts) -> Iterator[str]:
    certificate, header = of.header.get("certificate") or {}, of.header
    if gap.kind_of(certificate) is None:
        yield "No figure was certified, so nothing is known about how far the weights are from the best ones."
    else:
        what = "objective" if certificate.get("margin_gap") is None else "largest margin"
        yield f"The {what} lies between two bounds. The certificate has both, for these weights on all training rows."
    course = gap.course_of(of.events, header)
    yield gap.drawn(course) if course is not None else ""
    pairs = list(_named(certificate, PROVEN))
    pairs += [("tolerance asked for", escaped(header["tol"]))] if header.get("tol") is not None else []
    pairs += [("passes over the rows", number(header["passes_done"]))] if header.get("passes_done") is not None else []
    yield listed(pairs)


def _named(figures: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those of the figures that are known, with their names."""
    return ((name, number(figures[key])) for key, name in names.items() if figures.get(key) is not None)


def _good(of: Facts) -> Iterator[str]:
    judged = of.judged
    if judged is None:
        yield "No rows were judged for this page: give labelled ones with <code>--test</code>. The training knows this:"
        yield listed(_named(of.header.get("certificate") or {}, TRAINED))
        return
    own = " These are the training rows: new rows will go wrong more often." if of.training else ""
    yield f"Figures of {number(judged['rows'])} rows of {escaped(of.tested)}, defined as in scikit-learn.{own}"
    yield listed(_named(judged, JUDGED))
    classes = judged.get("per_class") or []
    shown = sorted(classes, key=lambda one: one["f1"])[:CLASSES] if len(classes) > CLASSES else classes
    if shown:
        more = f" (the {CLASSES} with the smallest F1)" if len(classes) > CLASSES else ""
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
    tried = costs.tried_in(of.events, of.header)
    if tried is None:
        cost = number(float(of.header["C"])) if of.header.get("C") is not None else None
        yield "" if cost is None else (
            f"One value was tried: C = {cost}. Several are compared on held-out rows by <code>-C 0.01,0.1,1,10 --valid "
            "DATA</code>."
        )  # fmt: skip
        return
    of_folds = any(spread is not None for spread in tried.spreads)
    folds = "Held-out errors are means over folds, with their standard errors. " if of_folds else ""
    yield (
        f"C weighs the errors against the penalty. Of {len(tried.costs)} values {tried.best:g} is kept. "
        f"{folds}Each error is that of a model whose gap the last column tells."
    )
    yield costs.drawn(tried)
    yield costs.listed(tried)


def _wrong(of: Facts) -> Iterator[str]:
    judged = of.judged
    if judged is None:
        yield ""
        return
    matrix, numeric = judged.get("confusion"), "mean_squared_error" in judged
    yield f"Of {number(judged['rows'])} rows of {escaped(of.tested)}" + (
        "." if numeric or judged.get("mistakes") is None else f", {number(judged['mistakes'])} are wrong."
    )
    if matrix is not None and len(matrix) <= confusion.MOST:
        yield confusion.drawn([one["label"] for one in judged["per_class"]], matrix)
    elif pairs := judged.get("most_confused"):
        rows = [[cut(one["label"]), cut(one["predicted"]), number(one["rows"])] for one in pairs]
        yield "<h3>Classes that are taken for another most often</h3>" + table(["class", "taken for", "rows"], rows)
    if judged.get("distances") and (chart := histogram.drawn(judged["distances"], numeric)):
        yield f"<h3>{'Errors' if numeric else 'How far rows are on either side'}</h3>{chart}"


def _worst(of: Facts) -> Iterator[str]:
    worst, numeric = (of.judged or {}).get("worst"), of.model.numeric
    if not worst:
        yield ""
        return
    yield f"Rows of {escaped(of.tested)} that are farthest from right, by their numbers from 0."
    yield table(
        ["row", "target" if numeric else "class", "predicted", "error" if numeric else "score apart"],
        [[number(one["row"]), _told(one["label"]), _told(one["predicted"]), number(one["distance"], 3)]
         for one in worst],
    )  # fmt: skip


def _told(value: Any) -> str:
    return cut(value, 20) if isinstance(value, str) else number(value)


def _data(of: Facts) -> Iterator[tuple[str, str]]:
    data, header, model = of.start.get("data", {}), of.header, of.model
    if data.get("path"):
        yield "training rows", escaped(data["path"])
    if header.get("rows") is not None:
        yield "rows", number(header["rows"])
    yield "columns", number(model.answer.features)
    if data.get("nnz") is not None and header.get("rows"):
        share = data["nnz"] / (header["rows"] * max(1, model.answer.features))
        yield "stored values", f"{number(data['nnz'])} ({percent(share)})"
    if of.labels:
        shown = ", ".join(cut(label, 20) for label in of.labels[:CLASSES])
        yield "classes", shown + (f" … ({number(len(of.labels))} in all)" if len(of.labels) > CLASSES else "")
    if header.get("label_column") is not None:
        yield "label", escaped(header["label_column"])
    if model.feature_names_in_ is not None:
        names = [cut(name, 20) for name in model.feature_names_in_[:8]]
        yield "names", ", ".join(names) + (" …" if len(model.feature_names_in_) > 8 else "")
    if header.get("scale", "none") != "none":
        yield "scaled by", escaped(header["scale"])
    if data.get("fingerprint"):
        yield "fingerprint", escaped(data["fingerprint"])
    if of.tested:
        yield "judged rows", escaped(of.tested)


def _repeat(of: Facts) -> Iterator[str]:
    command = repeated(of.header, of.events, of.given, of.name)
    version = of.start.get("version")
    if command is None:
        yield "The log has the data's name: give it to the report to see the command."
    else:
        same = f"the same version, {escaped(version)}," if version else "the same version"
        yield f"By {same} on the same rows this gives the same model:"
        yield f"<pre>{escaped(command)}</pre>"
    data = of.given.get("data") or [of.start.get("data", {}).get("path", "DATA")]
    yield '<p class="note">This checks every figure of the certificate by NumPy alone:</p>'
    yield f"<pre>{escaped(shlex.join(['streammargin', 'verify', of.name or 'MODEL', *data]))}</pre>"
