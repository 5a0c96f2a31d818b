"""streammargin evaluate MODEL DATA [--json]"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from typing import Any

from streammargin.cli.options import add_lines, add_scoring, to_score
from streammargin.cli.remarks import Remarks, say
from streammargin.json_values import to_plain
from streammargin.kinds import ALL_THREADS
from streammargin.model.base import Model
from streammargin.wording import printable, short

WIDEST, WORST = 20, 10  # most classes that are printed, with their confusion matrix; how many of more


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of evaluation."""
    add_lines(parser, ("y",))
    add_scoring(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print the figures of a model on data."""
    model, data, asked = to_score(options)
    with Remarks():
        figures = model.evaluate(data, y=options.y, threads=options.threads or ALL_THREADS, **asked)
    if (own := model.was_trained_on(figures)) is not False:
        say(_of_training(model, "are" if own else "may be"))
    if text := _amiss(figures):
        say(text)
    if options.json:
        print(json.dumps(to_plain(figures), allow_nan=False))
        return 0
    if model.of_pairs:
        for key, value in figures.items():
            if value is not None:
                print(f"{key.replace('_', ' '):<14} {value:.6g}")
        return 0
    for part in figures.get("per_output", []):
        print(f"output {printable(part['output'])}: {_of_output(part)}")
    if "per_output" in figures:
        print(f"of {len(figures['per_output'])} outputs, in the mean:")
    if "accuracy" not in figures:  # a model of numbers
        for name in ("loss", "mean_squared_error", "mean_absolute_error", "largest_error"):
            if figures[name] is not None:
                print(f"{name.replace('_', ' '):<19}  {figures[name]:.6g}{' (mean)' * (name == 'loss')}")
        if figures["r2"] is not None:
            print(f"R^2                  {figures['r2']:.6f}")
        return 0
    several = "subset_accuracy" in figures
    print(f"accuracy  {figures['accuracy']:.6f}{' (of labels)' if several else ''}")
    if several:
        print(f"accuracy  {figures['subset_accuracy']:.6f} (of rows: all labels right)")
    print(f"mistakes  {figures['mistakes']} of {figures['rows'] * len(figures.get('per_output', [0]))}")
    if figures["loss"] is not None:
        print(f"loss      {figures['loss']:.6g} (mean)")
    if figures.get("margin") is not None:
        print(f"margin    {figures['margin']:.6g} (smallest)")
    for name in ("balanced_accuracy", "macro_f1", "roc_auc", "average_precision", "log_loss"):
        if figures.get(name) is not None:
            print(f"{name.replace('_', ' ').replace('roc auc', 'ROC AUC').replace('f1', 'F1')}  {figures[name]:.6f}")
    parts = figures.get("per_class", [])
    if len(parts) > WIDEST:
        parts = sorted(parts, key=lambda part: part["f1"])[:WORST]
        print(f"the {WORST} of {len(figures['per_class'])} classes with the smallest F1 (--json has all):")
    for part in parts:
        never = "" if part["predicted"] else ", never predicted"
        shares = f"precision {part['precision']:.4f}, recall {part['recall']:.4f}, F1 {part['f1']:.4f}"
        print(f"class {printable(short(part['label']))}: {part['correct']} of {part['rows']} right, {shares}{never}")
    for line in _confusion(figures):
        print(line)
    return 0


def _of_training(model: Model, verb: str) -> str:
    """The note on rows that are, or may be, those that the model was trained on."""
    rows, held_out, error = model.header["rows"], model.held_out_rows, model.header["certificate"]["valid_error"]
    parts = "" if held_out is None else f", {rows - held_out} of {rows} trained on"
    known = "" if error is None else f"; the held-out error was {error:.6g}"
    if_so = "if so, " * (verb != "are")
    return f"these {verb} the training rows{parts}: {if_so}new ones will go wrong more often{known}"


FLAT, FEWER = 0.95, 0.75  # of the log loss, and of the error, of a guess by the shares of the classes
SURE = 0.75  # of the log loss: probabilities of a smaller entropy are too sure


def _amiss(figures: dict[str, Any]) -> str:
    """The note on probabilities with a log loss above that of the shares, or about it though labels tell more.

    Flat ones have the entropy of the shares, and too sure ones much less than their log loss. "" for none.
    """
    if figures.get("log_loss") is None or "per_class" not in figures:
        return ""
    shares = [part["rows"] / figures["rows"] for part in figures["per_class"] if part["rows"]]
    least, error, loss = -sum(share * math.log(share) for share in shares), 1.0 - max(shares), figures["log_loss"]
    worse = loss > least / FLAT
    if loss < FLAT * least or not (worse or figures["error"] <= FEWER * error) or not error:
        return ""
    told = f"log loss {loss:.4g}, and {least:.4g} for the shares alone"
    if figures["entropy"] < SURE * loss:
        why, size = "are too sure", "smaller"
    elif worse or figures["entropy"] >= FLAT * least:
        why, size = f"tell {'less' if worse else 'hardly more'} than the shares of the classes", "larger"
    else:
        return ""
    return f"the probabilities {why}: {told}; use --calibrate or a {size} --C"


def _confusion(figures: dict[str, Any]) -> Iterator[str]:
    """The confusion matrix of up to WIDEST classes, in lines; of more the pairs that are confused most."""
    matrix, pairs = figures.get("confusion"), figures.get("most_confused")
    if matrix is None:
        return
    if len(matrix) > WIDEST:
        if pairs:
            yield "classes that are taken for another most often:"
        for pair in pairs or []:
            label, other = (printable(short(pair[name])) for name in ("label", "predicted"))
            yield f"{pair['rows']:>10}  {label} taken for {other}"
        return
    labels = [printable(short(part["label"])) for part in figures["per_class"]]
    cells = [["label", *labels], *([label, *map(str, row)] for label, row in zip(labels, matrix, strict=True))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield "confusion matrix, a line for each label and a column for each prediction:"
    for first, *rest in cells:
        counts = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        yield f"  {first:<{widths[0]}}  {'  '.join(counts)}"


def _of_output(part: dict[str, Any]) -> str:
    """The figures of one of several outputs, in a line."""
    if "accuracy" in part:
        names = {"accuracy": "accuracy", "macro_f1": "macro F1", "roc_auc": "ROC AUC", "log_loss": "log loss"}
    else:
        names = {"mean_squared_error": "mean squared error", "mean_absolute_error": "mean absolute error", "r2": "R^2"}
    return ", ".join(f"{said} {part[name]:.6g}" for name, said in names.items() if part[name] is not None)
