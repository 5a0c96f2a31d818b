"""How one problem (set, loss, C) is measured: settings sought from the loosest on, then repeated in rounds.

Ours must prove a gap; a peer only has to have weights whose objective lies within it. The rounds of all sides are
interleaved, because a shared machine is faster at one time than at another.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from examples.benchmarks.sides import OURS, find
from examples.benchmarks.worker import CutOff, Failed, Worker

TIMES = 20.0  # a peer is stopped at this multiple of our own time
LEAST = 0.1  # seconds: no call is cut off earlier
WARMING = 5  # calls at most


class Limits(NamedTuple):
    """longest: seconds of one call; reference: seconds of the call that finds the optimum; repeats of each setting."""

    longest: float
    reference: float
    repeats: int


class Reference(NamedTuple):
    """The smallest objective of all our weights, and a bound on its relative distance from the optimum.

    A peer is compared with this objective. That favours the peer unless the gap is far below the one to reach.
    """

    objective: float
    gap: float


class Points:
    """What one side reached: a list of points {setting, seconds, objective, suboptimality, ...}, loosest first."""

    def __init__(self, side: str, worker: Worker) -> None:
        self.side, self.worker, self.mine = side, worker, side.startswith(OURS)
        self.points: list[dict[str, Any]] = []
        self.stopped: str | None = None
        self.compile_seconds = 0.0

    def warm(self, loss: str, C: float, setting: Any, limit: float) -> None:
        """Calls that no clock counts, until one compiles nothing; that one loads what was compiled before."""
        for _ in range(WARMING):
            try:
                _, _, facts = self.worker.solve(loss, C, setting, limit)
            except (CutOff, Failed):  # the timed calls report it
                return
            self.compile_seconds += facts["compile_seconds"]
            if not facts["compile_seconds"]:
                return

    def reached(self, gap: float, limit: float) -> dict[str, Any] | None:
        """The loosest point within the gap and the limit in seconds; ours is the one that was asked to prove it."""
        for point in self.points:
            proven = point["proven"] and point["setting"] == gap if self.mine else True
            if proven and point["suboptimality"] <= gap and point["seconds"] <= limit:
                return point
        return None


def explore(
    found: Points, loss: str, C: float, settings: Sequence[Any], judge: Callable[[Any], dict[str, Any]],
    last: float, limit: float,
) -> None:  # fmt: skip
    """Try settings until one is within the gap `last`, an error, or the limit in seconds of one call."""
    for setting in settings:
        try:
            seconds, W, facts = found.worker.solve(loss, C, setting, limit)
        except CutOff:
            found.stopped = f"cut off at {limit:.3g} s with setting {setting:g}"
            return
        except Failed as error:
            found.stopped = str(error)
            return
        found.points.append({"setting": setting, "seconds": seconds, **judge(W), **facts})
        if not found.mine and found.reached(last, limit) is not None:
            return


def measure(
    sides: Sequence[str], workers: Mapping[str, Worker], loss: str, C: float, gaps: Sequence[float], limits: Limits,
    figures: Callable[[Any], dict[str, Any]],
) -> list[dict[str, Any]]:  # fmt: skip
    """One row of figures per side; the first side is ours, whose times limit all that follow.

    figures(W) gives the objective and whatever else is kept of weights.
    """
    found = [Points(side, workers[side]) for side in sides]
    ours, theirs = [points for points in found if points.mine], [points for points in found if not points.mine]
    tight = Points(sides[0], workers[sides[0]])
    tight.warm(loss, C, max(gaps), limits.longest)
    explore(tight, loss, C, [min(gaps) / 10.0], figures, 0.0, limits.reference)
    for points in ours:
        points.warm(loss, C, max(gaps), limits.longest)
        explore(points, loss, C, sorted(gaps, reverse=True), figures, 0.0, limits.longest)
    known = [point for points in (tight, *ours) for point in points.points]
    if not known:
        raise Failed(tight.stopped)
    optimum = min(point["objective"] for point in known)
    reference = Reference(optimum, 1.0 - max(point["dual"] for point in known) / optimum)

    def judge(W: Any) -> dict[str, Any]:
        facts = figures(W)
        return {**facts, "suboptimality": facts["objective"] / optimum - 1.0}

    for point in known:
        point["suboptimality"] = point["objective"] / optimum - 1.0
    limit_of = dict.fromkeys(gaps, limits.longest)
    for gap in gaps:
        own = ours[0].reached(gap, limits.longest)
        if own is not None:
            limit_of[gap] = min(limits.longest, max(LEAST, TIMES * own["seconds"]))
    for points in theirs:
        explore(points, loss, C, find(points.side).settings, judge, min(gaps), max(limit_of.values()))
    seconds = _rounds(found, loss, C, gaps, limit_of, limits.repeats)
    ours[0].compile_seconds += tight.compile_seconds
    return [_row(points, seconds, gaps, limit_of, reference) for points in found]


def _rounds(
    all_points: Sequence[Points], loss: str, C: float, gaps: Sequence[float], limit_of: Mapping[float, float],
    repeats: int,
) -> dict[tuple[str, Any], list[float]]:  # fmt: skip
    """Seconds of each (side, setting) that reached a gap, from rounds over all of them."""
    seconds: dict[tuple[str, Any], list[float]] = {}
    for _ in range(repeats):
        for points in all_points:
            chosen = {gap: point for gap in gaps if (point := points.reached(gap, limit_of[gap])) is not None}
            for setting in dict.fromkeys(point["setting"] for point in chosen.values()):
                try:  # the noise of a machine may double a time; that is no reason to stop a side that got there
                    taken, _, _ = points.worker.solve(loss, C, setting, 3.0 * max(limit_of.values()))
                except CutOff:
                    taken = float("inf")
                seconds.setdefault((points.side, setting), []).append(taken)
    return seconds


def _row(
    points: Points, seconds: Mapping[tuple[str, Any], list[float]], gaps: Sequence[float],
    limit_of: Mapping[float, float], reference: Reference,
) -> dict[str, Any]:  # fmt: skip
    reached = {}
    for gap in gaps:
        point = points.reached(gap, limit_of[gap])
        if point is not None:
            taken = seconds[points.side, point["setting"]]
            reached[f"{gap:g}"] = {**point, "seconds": taken, "median": statistics.median(taken)}
    return {
        "reference": reference.objective, "reference_gap": reference.gap,
        "limits": {f"{gap:g}": limit for gap, limit in limit_of.items()},
        "compile_seconds": points.compile_seconds, "reached": reached,
        "points": points.points, "stopped": points.stopped,
        "best": min((point["suboptimality"] for point in points.points), default=None),
    }  # fmt: skip
