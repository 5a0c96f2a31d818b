"""What is proven, in a sentence; and the few figures that everybody asks for first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from streammargin.report.text import cut, escaped, number, percent, seconds

REASONS = {
    "passes": "it ran out of passes", "seconds": "it ran out of time", "signal": "it was interrupted",
    "early_stop": "early stopping kept the pass with the smallest held-out error",
    "separated": "the rows are separated, and this solver stops there",
    "not_separable": "no hyperplane separates the rows, which is proven",
    "small_margin": "no separator with a margin above the tolerance was found",
    "tolerance": "a weaker proof was asked for",
}  # fmt: skip


def verdict(header: Mapping[str, Any]) -> tuple[bool, str, str]:
    """(whether the tolerance is proven, a headline, a sentence that explains it), both HTML."""
    certificate = header.get("certificate") or {}
    gap, margin, residual = (certificate.get(name) for name in ("gap", "margin_gap", "residual"))
    if header.get("converged") and gap is not None:
        same = f"No other weights have an objective more than {percent(gap)} below that of these, at the same loss, "
        return True, f"Proven: within {percent(gap)} of the best", f"{same}penalty and C."
    if header.get("converged") and margin is not None:
        low, high = (number(certificate.get(name)) for name in ("margin_lower", "margin_upper"))
        return True, f"Proven: within {percent(margin)} of the largest margin", (
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


def tiles(
    header: Mapping[str, Any], judged: Mapping[str, Any] | None, tested: str, nonzeros: tuple[int, int] | None
) -> str:
    """The first figures, each with its name; nonzeros: columns with a weight, and all columns."""
    found = [*_good(header, judged, cut(tested, 22)), *_trained(header, nonzeros)]
    return "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in found)


def _good(header: Mapping[str, Any], judged: Mapping[str, Any] | None, rows: str) -> Iterator[tuple[str, str]]:
    certificate = header.get("certificate") or {}
    if judged is not None and judged.get("accuracy") is not None:
        yield f"accuracy on {rows}", percent(judged["accuracy"])
        if judged.get("roc_auc") is not None:
            yield "ROC AUC", number(judged["roc_auc"])
        elif judged.get("balanced_accuracy") is not None:
            yield "balanced accuracy", percent(judged["balanced_accuracy"])
    elif judged is not None and judged.get("mean_squared_error") is not None:
        if judged.get("r2") is not None:
            yield f"R² on {rows}", number(judged["r2"])
        yield "mean absolute error", number(judged["mean_absolute_error"])
    elif (error := certificate.get("valid_error")) is not None:
        share = certificate.get("train_error") is not None
        yield ("wrong held-out rows", percent(error)) if share else ("held-out error", number(error))
    if certificate.get("train_error") is not None:
        yield "wrong training rows", percent(certificate["train_error"])


def _trained(header: Mapping[str, Any], nonzeros: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    if header.get("C") is not None:
        yield "C", number(float(header["C"]))
    if nonzeros is not None:
        yield f"of {number(nonzeros[1])} columns have a weight", number(nonzeros[0])
    elif header.get("support") is not None:
        yield "support rows", number(header["support"])
    if header.get("seconds") is not None:
        yield "of training", seconds(float(header["seconds"]))
