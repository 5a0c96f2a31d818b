"""The card of the columns that matter: over all classes, and for each."""

from __future__ import annotations

from collections.abc import Iterator

from streammargin.report import weights
from streammargin.report.facts import Facts
from streammargin.report.text import cut, number


def explained(of: Facts, any_there: bool) -> str:
    if not any_there:
        linear = hasattr(of.model, "coef_")
        return "" if linear else "This model compares rows with rows, and has no weight for a column."
    measured = of.header.get("measured_rows")
    if of.model.moments is None or measured is None:
        return "Columns by their weights. The weights of columns of small numbers are large: their spread is not known."
    rows = "the training rows" if measured == of.header.get("rows") else f"{number(measured)} of the training rows"
    return (
        "A weight times the standard deviation of its column tells how much the column moves the score. Beside it is "
        f"the weight for the column as stored. Standard deviations are those of {rows}."
    )


def rankings(of: Facts, count: int, classes: int) -> Iterator[str]:
    """Columns that matter: over all classes first, then those of each, folded up if there are several."""
    model = of.model
    if not hasattr(model, "top_features"):
        return
    parts = [part for part in model.top_features(count) if part["features"]]
    if len(parts) > 1:
        overall = weights.drawn_overall(model.top_columns(count), "Columns that matter for all classes")
        yield f"<h3>For all classes together</h3>{overall}"
    against = f" against {cut(of.labels[0])}" if len(of.labels) == 2 and model.outputs is None else ""
    for place, part in enumerate(parts[:classes]):
        label = "the prediction" if part["label"] is None else f"{cut(part['label'])}{against}"
        chart = weights.drawn(part["features"], "Columns that matter most")
        if len(parts) == 1:
            yield f"<h3>For {label}</h3>{chart}"
        elif classes > 1:
            yield f"<details{' open' * (place == 0)}><summary>For {label}</summary>{chart}</details>"
    if len(parts) > classes > 1:
        yield f'<p class="note">{len(parts) - classes} more: streammargin info MODEL --top {count} lists all.</p>'
