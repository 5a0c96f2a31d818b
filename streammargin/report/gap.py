"""The chart of the gap over the passes: what was proven, and before that what was estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from streammargin.report.axes import Axes, around, key
from streammargin.report.text import number

Event = Mapping[str, Any]
MOST = 300  # points of a line
KINDS = {"gap": "relative gap", "margin_gap": "relative gap of the margin", "residual": "residual"}


class Course(NamedTuple):
    """Gaps by pass: certified ones, and the solver's estimates; what kind they are, and the tolerance, if it is one."""

    kind: str
    passes: list[int]
    gaps: list[float]
    estimated: list[int]
    estimates: list[float]
    tol: float | None


def kind_of(certificate: Mapping[str, Any]) -> str | None:
    """The figure of a certificate that tells how much is proven; None if nothing is."""
    return next((name for name in ("gap", "margin_gap", "residual") if certificate.get(name) is not None), None)


def course_of(events: Sequence[Event], header: Mapping[str, Any]) -> Course | None:
    """The gaps of the model's value of C in a log; None without any.

    A training that judges folds has certificates of each; those of all rows count.
    """
    kind = kind_of(header.get("certificate") or {})
    if kind is None:
        return None
    own = [one for one in events if one["event"] == "certificate" and one["C"] == header["C"] and not _of_fold(one)]
    found = [(one["pass"], one[kind]) for one in own if _shown(one[kind])]
    told = [(one["pass"], one["estimate"]) for one in events if one["event"] == "pass_end" and _shown(one["estimate"])]
    first = min((one for one, _ in found), default=0)
    others = [one["pass"] for one in events if one["event"] == "certificate" and one["C"] != header["C"]]
    begun = max((one for one in others if one < first), default=0)  # on a path, where the values of C before end
    told = [(one, value) for one, value in told if one > begun] if kind != "residual" else []
    if not found and not told:
        return None
    tol = header.get("tol")
    limit = tol if isinstance(tol, float) and tol > 0.0 and kind != "residual" else None
    return Course(kind, *_columns(found), *_columns(told), limit)


def _columns(pairs: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """Passes and values of at most about MOST of these pairs, the last one among them."""
    some = pairs[:: -(-len(pairs) // MOST) or 1] + pairs[-1:]
    some = some[:-1] if some[-2:-1] == pairs[-1:] else some
    return [one for one, _ in some], [one for _, one in some]


def _of_fold(event: Event) -> bool:
    return event.get("fold") is not None


def _shown(value: Any) -> bool:
    """Whether a logarithmic scale can show it."""
    return isinstance(value, (int, float)) and 0.0 < value < math.inf


def drawn(course: Course) -> str:
    """The chart; "" if there was one pass."""
    passes, values = [*course.passes, *course.estimated], [*course.gaps, *course.estimates]
    if len(set(passes)) < 2:
        return ""
    limits = around([*values, *([course.tol] if course.tol else [])], log=True)
    x, name = (0.0, float(max(passes))), KINDS[course.kind]
    axes = Axes(x, limits, "passes over the rows", name, y_log=True, whole=(True, False))
    if course.tol:
        axes.across_at(course.tol, "c", f"tolerance {course.tol:g}")
    if len(course.estimates) > 1:
        axes.line(course.estimated, course.estimates, "b", dashed=True)
    if len(course.gaps) > 1:
        axes.line(course.passes, course.gaps, "a")
    told = [f"pass {one}: {number(gap)} certified" for one, gap in zip(course.passes, course.gaps, strict=True)]
    axes.points(course.passes, course.gaps, "a", told)
    entries = [("a", "certified")] * bool(course.gaps)
    entries += [("b", "estimated by the solver")] * (len(course.estimates) > 1)
    return key(*entries) + axes.svg("The gap after each pass")
