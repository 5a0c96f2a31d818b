"""Charts by matplotlib, for notebooks and papers, of the same figures as the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streammargin.errors import UsageError
from streammargin.report.charts import KINDS, MEASURE, band, bars_of, course_of, name_of, tried_in
from streammargin.report.page import RANKED_COLUMNS, Facts
from streammargin.wording import short, shown


def plot(of: Facts, kind: str, ax: Any = None) -> Any:
    """Draw "gap", "C" or "weights" on these matplotlib Axes, None: new ones; returns the Axes.

    Raises UsageError for another kind, for a training without what it draws, and where matplotlib is missing.
    """
    kinds: dict[str, Callable[[Facts, Any], None]] = {"gap": _gap, "C": _costs, "weights": _weights}
    if kind not in kinds:
        raise UsageError(f"the kind of a plot is gap, C or weights, not {shown(kind)}")
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise UsageError("plots need matplotlib; install it with: pip install matplotlib") from error
    made = ax is None
    ax = pyplot.subplots()[1] if made else ax
    try:
        kinds[kind](of, ax)
    except UsageError:
        if made:
            pyplot.close(ax.figure)
        raise
    return ax


def _gap(of: Facts, ax: Any) -> None:
    course = course_of(of.events, of.header)
    if course is None:
        raise UsageError("no gap was certified or estimated, so there is none to plot")
    ax.plot(course.estimated, course.estimates, "--", color="C1", label="estimated by the solver")
    ax.plot(course.passes, course.gaps, "o-", color="C0", label="certified")
    if course.tol is not None:
        ax.axhline(course.tol, linestyle=":", color="C2", label=f"tolerance {course.tol:g}")
    ax.set(yscale="log", xlabel="passes over the rows", ylabel=KINDS[course.kind])
    ax.legend()


def _costs(of: Facts, ax: Any) -> None:
    tried = tried_in(of.events, of.header)
    if tried is None:
        raise UsageError("the training had one value of C; give several in `C`, with `cv` or `valid`")
    for values, what in ((tried.held_out, "held-out rows"), (tried.training, "training rows")):
        if any(value is not None for value in values):
            ax.plot(tried.costs, values, "o-", label=what)
    low, high = band(tried)
    if low:
        ax.fill_between(tried.costs, low, high, alpha=0.2, color="C0")
    ax.axvline(tried.best, linestyle=":", color="C2", label=f"kept: C = {tried.best:g}")
    ax.set(xscale="log", xlabel="C", ylabel=MEASURE[tried.share])
    ax.legend()


def _weights(of: Facts, ax: Any) -> None:
    if not hasattr(of.model, "top_features"):
        raise UsageError("this model has no weights of columns to plot: it is not linear")
    parts = of.model.top_features(RANKED_COLUMNS)
    if len(parts) > 1:
        bars = [(name_of(one), one["effect"]) for one in of.model.top_columns(RANKED_COLUMNS)]
        what = "effect on all scores"
    else:
        found, heads = bars_of(parts[0]["features"])
        bars = [(name, value) for name, value, _ in found]
        what = "weight" if len(heads) == 1 else "weight × standard deviation"
        if parts[0]["label"] is not None:
            what = f"{what}, above 0 for {short(str(parts[0]['label']))}"
    places = range(len(bars))
    ax.barh(places, [value for _, value in bars], color=["C0" if value >= 0.0 else "C1" for _, value in bars])
    ax.set_yticks(places, [name for name, _ in bars])
    ax.set(xlabel=what)
    ax.invert_yaxis()
