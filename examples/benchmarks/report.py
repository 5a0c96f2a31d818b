"""Rows of `in_memory` for people: a line each, tables in Markdown, a picture.

python -m examples.benchmarks.report ROWS.jsonl [--out FILE.png]
"""

from __future__ import annotations

import argparse
import math
import statistics
from typing import Any, NamedTuple

from examples.benchmarks.sides import OURS
from examples.benchmarks.store import read_rows

Row = dict[str, Any]
LEGEND = "median (least-most); [x]: not reached, x is the best; ?: the optimum is not known that well"


def figure(row: Row, gap: str) -> str:
    """Median seconds with the least and the most, or how near the side came; ? if the optimum is not known."""
    doubt = "" if row["reference_gap"] <= float(gap) else "?"
    if gap in row["reached"]:
        found = row["reached"][gap]
        return f"{found['median']:.3g} ({min(found['seconds']):.3g}-{max(found['seconds']):.3g}){doubt}"
    return "-" if row["best"] is None else f"[{row['best']:.1e}]{doubt}"


def line(row: Row) -> str:
    """The text that is printed when a row was measured."""
    times = "  ".join(f"{gap}: {figure(row, gap)}" for gap in row["limits"])
    note = "" if row["stopped"] is None else f"  ({row['stopped']})"
    compiled = f"  compile time, not counted: {row['compile_seconds']:.1f} s" if row["compile_seconds"] else ""
    return f"{row['set']:<11} {row['loss']:<13} C={row['C']:<5g} {row['side']:<34} {times}{compiled}{note}"


def table(rows: list[Row]) -> str:
    """For each loss and gap, seconds by problem and side."""
    parts = []
    for loss in dict.fromkeys(row["loss"] for row in rows):
        of_loss = [row for row in rows if row["loss"] == loss]
        sides = list(dict.fromkeys(row["side"] for row in of_loss))
        for gap in dict.fromkeys(gap for row in of_loss for gap in row["limits"]):
            lines = [f"{loss}, seconds to {gap}: {LEGEND}", "",
                     f"| set | C | {' | '.join(sides)} | best peer / ours |",
                     "|" + "---|" * (len(sides) + 3)]  # fmt: skip
            ratios: dict[float, list[str]] = {}
            for name, C in dict.fromkeys((row["set"], row["C"]) for row in of_loss):
                by_side = {row["side"]: row for row in of_loss if (row["set"], row["C"]) == (name, C)}
                cells = [figure(by_side[side], gap) if side in by_side else "" for side in sides]
                ratios.setdefault(C, []).append(ratio(by_side, gap))
                lines.append(f"| {name} | {C:g} | {' | '.join(cells)} | {ratios[C][-1]} |")
            lines += [f"| geometric mean | {C:g} |{' |' * len(sides)} {mean(ratios[C])} |" for C in ratios]
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def ratio(by_side: dict[str, Row], gap: str) -> str:
    """How many times our time the fastest peer took.

    > 20 if none got there and one was cut off; never if they ended by themselves. Peers that failed do not count.
    """
    ours = next((row for side, row in by_side.items() if side.startswith(OURS)), None)
    peers = [row for side, row in by_side.items()
             if not side.startswith(OURS) and (row["stopped"] is None or cut_off(row) or row["points"])]  # fmt: skip
    if ours is None or gap not in ours["reached"] or not peers:
        return "-"
    own = ours["reached"][gap]["median"]
    theirs = [row["reached"][gap]["median"] for row in peers if gap in row["reached"]]
    if theirs and min(theirs) < math.inf:
        return f"{min(theirs) / own:.2f}"
    late = any(point["suboptimality"] <= float(gap) for row in peers for point in row["points"])
    return f"> {int(ours['limits'][gap] / own)}" if late or any(map(cut_off, peers)) else "never"


def mean(ratios: list[str]) -> str:
    """The geometric mean of ratios; > 20 counts as 20, and a peer that never gets there does not count."""
    known = [max(0.01, float(one.removeprefix("> "))) for one in ratios if one not in ("-", "never")]
    return f"{statistics.geometric_mean(known):.2f}" if known else "-"


def cut_off(row: Row) -> bool:
    """Whether a side was stopped by the limit of its time, from outside or by itself."""
    return str(row["stopped"]).startswith(("cut off", TimeoutError.__name__))


class Curve(NamedTuple):
    """What one side reached: values fall from point to point; reads: of the file, or visits of rows in memory."""

    label: str
    seconds: list[float]
    values: list[float]
    reads: list[float] | None = None


def panels(rows: list[Row]) -> dict[str, list[Curve]]:
    """The suboptimalities of every side by problem."""
    found: dict[str, list[Curve]] = {}
    for row in rows:
        points = [point for point in row["points"] if point["suboptimality"] > 0.0]
        visits = [visits_of(point) for point in points]
        curve = Curve(row["side"], [point["seconds"] for point in points],
                      [point["suboptimality"] for point in points],
                      None if None in visits else visits)  # fmt: skip
        found.setdefault(f"{row['set']}, {row['loss']}, C = {row['C']:g}", []).append(curve)
    return found


def draw(panels: dict[str, list[Curve]], what: str, reads: str, path: str) -> str:
    """A row of two pictures for each panel: values against seconds, and against reads if they were counted.

    what, reads: the names of these axes. Returns the path, or why there is no picture.
    """
    try:
        import matplotlib
    except ImportError:
        return "none: matplotlib is not installed"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    picture, axes = pyplot.subplots(len(panels), 2, figsize=(10, 2.6 * len(panels)), squeeze=False)
    for (title, curves), (time_axis, read_axis) in zip(panels.items(), axes, strict=True):
        for curve in curves:
            (drawn,) = time_axis.loglog(curve.seconds, curve.values, ".-", label=curve.label)
            if curve.reads is not None:
                read_axis.loglog(curve.reads, curve.values, ".-", color=drawn.get_color())
        time_axis.set(title=title, xlabel="seconds", ylabel=what)
        read_axis.set(xlabel=reads)
        time_axis.legend(fontsize=6)
    picture.tight_layout()
    picture.savefig(path, dpi=100)
    pyplot.close(picture)
    return path


def picture(rows: list[Row], path: str) -> str:
    """Suboptimality of all rows of `in_memory`; the path, or why there is no picture."""
    return draw(panels(rows), "suboptimality", "passes over the rows, certificates included", path)


def visits_of(point: Row) -> int | None:
    """Passes and certificates of a point, if the side counts them."""
    return None if "passes" not in point else max(1, point["passes"] + point.get("certificates", 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", metavar="ROWS.jsonl")
    parser.add_argument("--out", metavar="FILE.png")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    print(table(rows))
    if options.out:
        print(f"\npicture: {picture(rows, options.out)}")


if __name__ == "__main__":
    main()
