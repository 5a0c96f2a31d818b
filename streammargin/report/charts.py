"""Charts in SVG: axes in units of the data, and one function a chart with what it shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streammargin.report.html import cut, escaped, number, percent, rows_told, table

WIDTH, HEIGHT = 440, 250
LEFT_EDGE, RIGHT_EDGE, TOP_EDGE, BOTTOM_EDGE = 58, 12, 10, 42
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Limits = tuple[float, float]


@dataclass(frozen=True)
class ChartScale:
    """The map from values within `limits` to places between two pixels; log: by logarithms; whole: ticks are whole."""

    limits: Limits
    pixels: Limits
    log: bool = False
    whole: bool = False

    def at(self, value: float) -> float:
        """The place of a value; what is beyond the limits is at their end."""
        low, high = map(self._measure, self.limits)
        share = (self._measure(min(max(value, self.limits[0]), self.limits[1])) - low) / ((high - low) or 1.0)
        return self.pixels[0] + share * (self.pixels[1] - self.pixels[0])

    def _measure(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self) -> list[float]:
        """Round values within the limits."""
        low, high = self.limits
        if self.log:
            first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
            return [10.0**k for k in range(first, last + 1, max(1, -(-(last - first) // 5)))]
        step = _step((high - low) / 4.0)
        step = float(max(1, math.ceil(step))) if self.whole else step
        return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]

    def label(self, value: float) -> str:
        """A tick as text."""
        if self.log:
            power = round(math.log10(value))
            return f"{value:g}" if -4 < power < 4 else f"10{str(power).translate(_RAISED)}"
        return number(round(value, 12), 4)


def _step(least: float) -> float:
    """A round number, at least this."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0.0 else 1.0
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= least * (1.0 - 1e-9))


def around(values: Sequence[float], log: bool = False, from_0: bool = False) -> Limits:
    """Limits of a scale that shows these values with some room; from_0: 0 is one of the limits, or between them."""
    low, high = min(values), max(values)
    if log:
        low, high = 10.0 ** math.floor(math.log10(low) + 1e-9), 10.0 ** math.ceil(math.log10(high) - 1e-9)
        return (low, high) if low < high else (low / 10.0, high * 10.0)
    low, high = (min(low, 0.0), max(high, 0.0)) if from_0 else (low, high)
    room = 0.06 * (high - low) or abs(high) or 1.0
    return (low if from_0 and low == 0.0 else low - room), (high if from_0 and high == 0.0 else high + room)


@dataclass
class Axes:
    """A chart with the axes x and y, and their names below and above it; whole: axes of counts."""

    x: Limits
    y: Limits
    x_name: str
    y_name: str
    x_log: bool = False
    y_log: bool = False
    percent: bool = False
    whole: tuple[bool, bool] = (False, False)
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.across: ChartScale = ChartScale(self.x, (LEFT_EDGE, WIDTH - RIGHT_EDGE), self.x_log, self.whole[0])
        self.up: ChartScale = ChartScale(self.y, (HEIGHT - BOTTOM_EDGE, TOP_EDGE + 14), self.y_log, self.whole[1])
        self.parts += self._frame()

    def _frame(self) -> Iterator[str]:
        for value in self.up.ticks():
            y = f"{self.up.at(value):.1f}"
            text = f"{number(100 * value, 3)}%" if self.percent else self.up.label(value)
            yield f'<line class="l" x1="{LEFT_EDGE}" x2="{WIDTH - RIGHT_EDGE}" y1="{y}" y2="{y}"/>'
            yield f'<text x="{LEFT_EDGE - 7}" y="{y}" dy="4" text-anchor="end">{text}</text>'
        for value in self.across.ticks():
            x, label = f"{self.across.at(value):.1f}", self.across.label(value)
            yield f'<text x="{x}" y="{HEIGHT - BOTTOM_EDGE + 17}" text-anchor="middle">{label}</text>'
        middle = (LEFT_EDGE + WIDTH - RIGHT_EDGE) / 2
        yield f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escaped(self.x_name)}</text>'
        yield f'<text x="0" y="{TOP_EDGE}">{escaped(self.y_name)}</text>'

    def line(self, xs: Sequence[float], ys: Sequence[float], colour: str, dashed: bool = False) -> None:
        """A line through these points."""
        path = "L".join(f"{self.across.at(x):.1f} {self.up.at(y):.1f}" for x, y in zip(xs, ys, strict=True))
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        how = f'fill="none" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"{dash}'
        self.parts.append(f'<path class="l{colour}" d="M{path}" {how}/>')

    def points(self, xs: Sequence[float], ys: Sequence[float], colour: str, told: Sequence[str]) -> None:
        """A point for each pair, with the text that it shows under the pointer."""
        for x, y, text in zip(xs, ys, told, strict=True):
            place = f'cx="{self.across.at(x):.1f}" cy="{self.up.at(y):.1f}"'
            self.parts.append(f'<circle class="f{colour}" {place} r="3.5"><title>{escaped(text)}</title></circle>')

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> None:
        """The area between two lines."""
        pairs = [*zip(xs, high, strict=True), *reversed([*zip(xs, low, strict=True)])]
        path = "L".join(f"{self.across.at(x):.1f} {self.up.at(y):.1f}" for x, y in pairs)
        self.parts.append(f'<path class="f{colour}" opacity=".16" d="M{path}Z"/>')

    def bar(self, low: float, high: float, value: float, colour: str, told: str) -> None:
        """A bar from 0 to `value` over the stretch from low to high."""
        left, right = sorted((self.across.at(low), self.across.at(high)))
        top, bottom = self.up.at(value), self.up.at(max(0.0, self.y[0]))
        size = f'width="{max(0.5, right - left - 1):.1f}" height="{max(0.0, bottom - top):.1f}"'
        place = f'x="{left + 0.5:.1f}" y="{top:.1f}" {size} rx="1.5"'
        self.parts.append(f'<rect class="f{colour}" {place}><title>{escaped(told)}</title></rect>')

    def across_at(self, value: float, colour: str, text: str) -> None:
        """A dashed line across the chart at a value of y, with its name."""
        y = self.up.at(value)
        self.parts.append(
            f'<line class="l{colour}" stroke-width="1.5" stroke-dasharray="3 4" x1="{LEFT_EDGE}" '
            f'x2="{WIDTH - RIGHT_EDGE}" y1="{y:.1f}" y2="{y:.1f}"/><text class="s" x="{LEFT_EDGE + 4}" y="{y - 5:.1f}">'
            f"{escaped(text)}</text>"
        )

    def up_at(self, value: float, colour: str, text: str) -> None:
        """A dashed line up the chart at a value of x, with its name."""
        x = self.across.at(value)
        anchor = "end" if x > (LEFT_EDGE + WIDTH) / 2 else "start"
        self.parts.append(
            f'<line class="l{colour}" stroke-width="1.5" stroke-dasharray="3 4" x1="{x:.1f}" x2="{x:.1f}" '
            f'y1="{TOP_EDGE + 14}" y2="{HEIGHT - BOTTOM_EDGE}"/><text class="t s" '
            f'x="{x + (5 if anchor == "start" else -5):.1f}" y="{TOP_EDGE + 24}" '
            f'text-anchor="{anchor}">{escaped(text)}</text>'
        )

    def svg(self, title: str) -> str:
        """The chart."""
        return drawing(WIDTH, HEIGHT, title, self.parts)


def drawing(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """An SVG of these parts; title: for who does not see it."""
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escaped(title)}">'
    return f"{head}{''.join(parts)}</svg>"


def key(*entries: tuple[str, str]) -> str:
    """What the colours of a chart mean."""
    items = (f'<span><i class="{colour}"></i>{escaped(text)}</span>' for colour, text in entries)
    return f'<div class="key">{"".join(items)}</div>'


Event = Mapping[str, Any]
POINTS = 300  # points of a line
KINDS = {"gap": "relative gap", "margin_gap": "relative gap of the margin", "residual": "residual"}


class GapCourse(NamedTuple):
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


def course_of(events: Sequence[Event], header: Mapping[str, Any]) -> GapCourse | None:
    """The gaps of the model's value of C in a log; None without any.

    A training that judges folds has certificates of each; those of all rows count.
    """
    kind = kind_of(header.get("certificate") or {})
    if kind is None:
        return None
    own = [one for one in events if one["event"] == "certificate" and one["C"] == header["C"]]
    found = [(one["pass"], one[kind]) for one in own if one.get("fold") is None and _shown(one[kind])]
    told = [(one["pass"], one["estimate"]) for one in events if one["event"] == "pass_end" and _shown(one["estimate"])]
    first = min((one for one, _ in found), default=0)
    others = [one["pass"] for one in events if one["event"] == "certificate" and one["C"] != header["C"]]
    begun = max((one for one in others if one < first), default=0)  # on a path, where the values of C before end
    told = [(one, value) for one, value in told if one > begun] if kind != "residual" else []
    if not found and not told:
        return None
    tol = header.get("tol")
    limit = tol if isinstance(tol, float) and tol > 0.0 and kind != "residual" else None
    return GapCourse(kind, *_columns(found), *_columns(told), limit)


def _columns(pairs: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """Passes and values of at most about POINTS of these pairs, the last one among them."""
    some = pairs[:: -(-len(pairs) // POINTS) or 1] + pairs[-1:]
    some = some[:-1] if some[-2:-1] == pairs[-1:] else some
    return [one for one, _ in some], [one for _, one in some]


def _shown(value: Any) -> bool:
    """Whether a logarithmic scale can show it."""
    return isinstance(value, (int, float)) and 0.0 < value < math.inf


def gap_chart(course: GapCourse) -> str:
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


MATRIX_MOST = 20  # classes of a matrix that is drawn
MATRIX_SIDE, MATRIX_LEFT, MATRIX_TOP = 336.0, 92.0, 46.0


def confusion_chart(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The chart of counts (k, k); the colour of a cell is its share of the row."""
    size = min(84.0, MATRIX_SIDE / len(labels))
    parts = ['<text x="0" y="12">a row for each label, a column for each prediction</text>']
    fit = max(2, int(size / 7.0))
    for i, label in enumerate(labels):
        middle = (i + 0.5) * size
        above = f'x="{MATRIX_LEFT + middle:.1f}" y="{MATRIX_TOP - 8}" text-anchor="middle"'
        parts.append(f'<text class="t s" {above}>{cut(label, fit)}<title>{escaped(label)}</title></text>')
        beside = f'x="{MATRIX_LEFT - 8}" y="{MATRIX_TOP + middle:.1f}" dy="4" text-anchor="end"'
        parts.append(f'<text class="t s" {beside}>{cut(label, 13)}<title>{escaped(label)}</title></text>')
        parts += [_cell(labels, counts, i, j, size) for j in range(len(labels))]
    return drawing(MATRIX_LEFT + MATRIX_SIDE, MATRIX_TOP + size * len(labels) + 4, "Confusion matrix", parts)


def _cell(labels: Sequence[str], counts: Sequence[Sequence[int]], i: int, j: int, size: float) -> str:
    count, total = counts[i][j], sum(counts[i])
    share = count / total if total else 0.0
    x, y, side = MATRIX_LEFT + j * size, MATRIX_TOP + i * size, size - 2.0
    place = f'x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" rx="3"'
    told = f"{labels[i]} taken for {labels[j]}: {number(count)} of {rows_told(total)} ({percent(share)})"
    middle = f'x="{x + side / 2:.1f}" y="{y + side / 2:.1f}" dy="4" text-anchor="middle"'
    cell = f'<rect class="fl" opacity=".45" {place}/>'
    opacity = 0.0 if not count else max(0.12, 0.75 * share)
    colour = f'class="f{"a" if i == j else "b"}" opacity="{opacity:.3f}"'
    cell += f"<rect {colour} {place}><title>{escaped(told)}</title></rect>"
    if count and len(str(count)) * 6.2 < size:
        cell += f'<text class="t s" {middle}>{count}</text>'
    return cell


BARS = 40


def histogram_bars(distances: Mapping[str, Any]) -> list[tuple[float, float, int]]:
    """(low, high, rows) of at most about BARS bars of equal width, of which two meet at 0; empty ends are left out."""
    counts, reach = distances["counts"], distances["reach"]
    filled = [place for place, count in enumerate(counts) if count]
    if not filled or not reach:
        return []
    half, width = len(counts) // 2, 2.0 * reach / len(counts)
    group = max(1, -(-(filled[-1] + 1 - filled[0]) // BARS))
    first, last = (filled[0] - half) // group, (filled[-1] - half) // group
    return [
        (k * group * width, (k + 1) * group * width, sum(counts[max(0, half + k * group) : half + (k + 1) * group]))
        for k in range(first, last + 1)
    ]


def histogram(distances: Mapping[str, Any], numeric: bool) -> str:
    """The chart; "" if all rows are alike. numeric: distances are errors of predicted numbers."""
    bars = histogram_bars(distances)
    if len(bars) < 2:
        return ""
    name = "prediction minus target" if numeric else "score of the label above the others"
    most = max(count for _, _, count in bars)
    axes = Axes((bars[0][0], bars[-1][1]), (0.0, 1.05 * most), name, "rows", whole=(False, True))
    for low, high, count in bars:
        if count:
            wrong = low < 0.0 and not numeric
            axes.bar(low, high, count, "b" if wrong else "a", f"{number(low)} to {number(high)}: {rows_told(count)}")
    entries = [] if numeric else [("a", "right"), ("b", "wrong")]
    return (key(*entries) if entries else "") + axes.svg("How far rows are from a change of the prediction")


BAR_STEP, BAR_NAMES, BAR_HEAD = 24, 150, 22  # height of a bar, width of the names, height of the head
BAR_NUMBER = 70  # width of a column of numbers
Bar = tuple[str, float, tuple[float, ...]]  # a name, a length, and the numbers beside


def name_of(one: Mapping[str, Any]) -> str:
    """A column by its name, or by its number."""
    return f"column {one['column']}" if one["name"] is None else str(one["name"])


def bars_of(features: Sequence[Mapping[str, Any]]) -> tuple[list[Bar], tuple[str, ...]]:
    """The bars of columns as `LinearModel.top_features` gives them, and the heads of their numbers."""
    if any(one["scaled_weight"] is None for one in features):
        return [(name_of(one), one["weight"], (one["weight"],)) for one in features], ("weight",)
    bars: list[Bar] = [(name_of(one), one["scaled_weight"], (one["scaled_weight"], one["weight"])) for one in features]
    return bars, ("× deviation", "weight")


def bars_chart(bars: Sequence[Bar], heads: tuple[str, ...], title: str) -> str:
    """The chart of bars, with a head above each of their numbers."""
    right = WIDTH - BAR_NUMBER * len(heads)
    low, high = min([0.0, *(value for _, value, _ in bars)]), max([0.0, *(value for _, value, _ in bars)])
    unit = (right - BAR_NAMES) / ((high - low) or 1.0)
    zero, bottom = BAR_NAMES - low * unit, BAR_HEAD + BAR_STEP * len(bars)
    parts = [_beside(place, len(heads), 11, head) for place, head in enumerate(heads)]
    parts.append(f'<line class="l" x1="{zero:.1f}" x2="{zero:.1f}" y1="{BAR_HEAD - 4}" y2="{bottom}"/>')
    for place, (name, value, numbers) in enumerate(bars):
        y, length = BAR_HEAD + BAR_STEP * place, max(1.5, abs(value) * unit)
        box = f'x="{zero if value >= 0.0 else zero - length:.1f}" y="{y + 4}" width="{length:.1f}" height="15" rx="2.5"'
        told = f"<title>{escaped(name)}</title>"
        parts.append(f'<text class="t" x="0" y="{y + 15}">{cut(name, 20)}{told}</text>')
        parts.append(f'<rect class="f{"a" if value >= 0.0 else "b"}" {box}>{told}</rect>')
        parts += [_beside(k, len(heads), y + 15, number(one, 3)) for k, one in enumerate(numbers)]
    return drawing(WIDTH, bottom + 2, title, parts)


def _beside(place: int, of: int, y: float, text: str) -> str:
    """A number, or the head of its column, at the right of the bars."""
    x = WIDTH - BAR_NUMBER * (of - 1 - place)
    return f'<text class="s" x="{x}" y="{y}" text-anchor="end">{text}</text>'


MEASURE = {True: "share of rows that are wrong", False: "mean loss of held-out rows"}  # by `share`
SPREAD = "valid_error_se"  # of a trial: the standard error of its held-out error over folds; missing without folds


class TriedCosts(NamedTuple):
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


def tried_in(events: Sequence[Event], header: Mapping[str, Any]) -> TriedCosts | None:
    """The values of C that a training has compared, of the event of its end; None if it has one value."""
    trials = next((one.get("trials") for one in reversed(events) if one["event"] == "run_end"), None)
    trials = sorted((one for one in trials or [] if math.isfinite(one["C"])), key=lambda one: one["C"])
    if len(trials) < 2:
        return None
    training = [one.get("train_error") for one in trials]
    gaps = [one["margin_gap"] if one.get("gap") is None else one["gap"] for one in trials]
    held_out, spreads = [one.get("valid_error") for one in trials], [one.get(SPREAD) for one in trials]
    share = any(one is not None for one in training)
    return TriedCosts([one["C"] for one in trials], held_out, training, spreads, gaps, header["C"], share)


def costs_chart(tried: TriedCosts) -> str:
    """The chart; "" without errors."""
    series = {"a": tried.held_out, "b": tried.training}
    known = {colour: _known_errors(tried.costs, values) for colour, values in series.items()}
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
            told = [f"C = {x:g}: {_error(y, tried.share)} of {what}" for x, y in zip(xs, ys, strict=True)]
            axes.points(xs, ys, colour, told)
            entries.append((colour, what))
    return key(*entries[::-1]) + axes.svg("The errors at each value of C")


def _known_errors(costs: list[float], values: list[float | None]) -> tuple[list[float], list[float]]:
    pairs = [(cost, value) for cost, value in zip(costs, values, strict=True) if value is not None]
    return [cost for cost, _ in pairs], [value for _, value in pairs]


def band(tried: TriedCosts) -> tuple[list[float], list[float]]:
    """Held-out errors less and plus their standard errors; empty lists if they have none."""
    pairs = [(value, spread) for value, spread in zip(tried.held_out, tried.spreads, strict=True) if value is not None]
    if not pairs or any(spread is None for _, spread in pairs):
        return [], []
    return [value - (spread or 0.0) for value, spread in pairs], [value + (spread or 0.0) for value, spread in pairs]


def _error(value: float | None, share: bool) -> str:
    return percent(value) if share else number(value)


def costs_table(tried: TriedCosts) -> str:
    """The same as a table, with the gap of each."""
    columns = zip(tried.costs, tried.held_out, tried.spreads, tried.training, tried.gaps, strict=True)
    some = any(one is not None for one in tried.training)
    rows = []
    for cost, held, spread, training, gap in columns:
        beside = "" if spread is None else f" ± {_error(spread, tried.share)}"
        told = [_error(training, tried.share)] * some
        cells = [f"{cost:g}", _error(held, tried.share) + beside, *told, number(gap, 2)]
        rows.append([f"<b>{cell}</b>" if cost == tried.best else cell for cell in cells])
    return table(["C", "held out", *["training"] * some, "certified gap"], rows)
