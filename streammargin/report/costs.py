"""The chart of the values of C: held-out and training errors of each, and which one was kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from streammargin.report.axes import Axes, around, key
from streammargin.report.text import number, percent, table

Event = Mapping[str, Any]
MEASURE = {True: "share of rows that are wrong", False: "mean loss of held-out rows"}  # by `share`
SPREAD = "valid_error_se"  # of a trial: the standard error of its held-out error over folds; missing without folds


class Tried(NamedTuple):
    """Values of C in ascending order, with their errors. share: whether these are shares of rows, else mean losses.

    spreads: standard errors of the held-out errors, None for each without folds. gaps: the largest of a trial.
    """

    costs: list[float]
    held_out: list[float | None]
    training: list[float | None]
    spreads: list[float | None]
    gaps: list[float | None]
    best: float
    share: bool


def tried_in(events: Sequence[Event], header: Mapping[str, Any]) -> Tried | None:
    """The values of C that a training has compared, of the event of its end; None if it has one value."""
    trials = next((one.get("trials") for one in reversed(events) if one["event"] == "run_end"), None)
    trials = sorted((one for one in trials or [] if math.isfinite(one["C"])), key=lambda one: one["C"])
    if len(trials) < 2:
        return None
    training = [one.get("train_error") for one in trials]
    gaps = [one["margin_gap"] if one.get("gap") is None else one["gap"] for one in trials]
    held_out, spreads = [one.get("valid_error") for one in trials], [one.get(SPREAD) for one in trials]
    share = any(one is not None for one in training)
    return Tried([one["C"] for one in trials], held_out, training, spreads, gaps, header["C"], share)


def drawn(tried: Tried) -> str:
    """The chart; "" without errors."""
    series = {"a": tried.held_out, "b": tried.training}
    known = {colour: _known(tried.costs, values) for colour, values in series.items()}
    if not any(xs for xs, _ in known.values()):
        return ""
    low, high = band(tried)
    values = [value for _, ys in known.values() for value in ys] + low + high
    ends = around(tried.costs, log=True) if len(set(tried.costs)) < 2 else (min(tried.costs), max(tried.costs))
    axes = Axes(ends, around(values, from_0=tried.share), "C", MEASURE[tried.share], x_log=True, percent=tried.share)
    if low:
        axes.band(known["a"][0], low, high, "a")
    axes.up_at(tried.best, "c", f"kept: C = {tried.best:g}")
    entries = []
    for colour, what in (("b", "training rows"), ("a", "held-out rows")):
        xs, ys = known[colour]
        if xs:
            axes.line(xs, ys, colour)
            told = [f"C = {x:g}: {_text(y, tried.share)} of {what}" for x, y in zip(xs, ys, strict=True)]
            axes.points(xs, ys, colour, told)
            entries.append((colour, what))
    return key(*entries[::-1]) + axes.svg("The errors at each value of C")


def _known(costs: list[float], values: list[float | None]) -> tuple[list[float], list[float]]:
    pairs = [(cost, value) for cost, value in zip(costs, values, strict=True) if value is not None]
    return [cost for cost, _ in pairs], [value for _, value in pairs]


def band(tried: Tried) -> tuple[list[float], list[float]]:
    """Held-out errors less and plus their standard errors; empty lists if they have none."""
    pairs = [(value, spread) for value, spread in zip(tried.held_out, tried.spreads, strict=True) if value is not None]
    if not pairs or any(spread is None for _, spread in pairs):
        return [], []
    return [value - (spread or 0.0) for value, spread in pairs], [value + (spread or 0.0) for value, spread in pairs]


def _text(value: float | None, share: bool) -> str:
    return percent(value) if share else number(value)


def listed(tried: Tried) -> str:
    """The same as a table, with the gap of each."""
    columns = zip(tried.costs, tried.held_out, tried.spreads, tried.training, tried.gaps, strict=True)
    head, rows = ["C", "held out", "training", "certified gap"], []
    for cost, held, spread, training, gap in columns:
        beside = "" if spread is None else f" ± {_text(spread, tried.share)}"
        cells = [f"{cost:g}", _text(held, tried.share) + beside, _text(training, tried.share), number(gap, 2)]
        rows.append([f"<b>{cell}</b>" if cost == tried.best else cell for cell in cells])
    return table(head, rows)
