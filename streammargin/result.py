"""What a training returns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from streammargin.model.base import Model
from streammargin.wording import counted


@dataclass(frozen=True)
class Certificate:
    """Exact figures of the weights in a model, and whether they prove what was asked for.

    None where a figure has no meaning: margins need C = inf, the gap a dual; all of them where a signal ended the run
    or the rows were a stream (but margin_upper, which the steps of a hard margin prove). Of several classes primal and
    dual are sums, the gaps the worst class's, the margins those of the class with the smallest; per_class has each.
    """

    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
    margin_lower: float | None = None
    margin_upper: float | None = None
    margin_gap: float | None = None
    residual: float | None = None
    mistakes: int | None = None
    train_error: float | None = None
    valid_error: float | None = None
    per_class: list[dict[str, Any]] | None = field(default=None, repr=False)
    converged: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The figures by name, as in events and model files."""
        return {figure.name: getattr(self, figure.name) for figure in fields(self)}

    def __getitem__(self, name: str) -> Any:  # as of the event
        return self.to_dict()[name]


@dataclass
class TrainResult:
    """What `train` returns.

    model : Model; of a linear answer, as all are today, a LinearModel: with `coef_` and `intercept_`
    certificate : Certificate, for the weights in `model`
    history : list of event dicts
    reason : tolerance | separated | passes | seconds | signal | not_separable | small_margin
    resumable : whether the run was stopped early and its state written, so that the same call goes on from there
    better : whether `auto` would have taken another solver than the one that was named
    ranges : what there is to say of columns whose sizes differ much, None where they do not
    """

    model: Model = field(repr=False)
    certificate: Certificate
    history: list[dict[str, Any]] = field(repr=False)
    reason: str
    converged: bool
    passes: int
    seconds: float
    run_end: dict[str, Any] = field(repr=False, default_factory=dict)
    resumable: bool = False
    replaced: bool = field(repr=False, default=False)
    better: bool = field(repr=False, default=False)
    ranges: str | None = field(repr=False, default=None)


SHOWN = 20  # labels in a message
FAR = 10.0  # times the tolerance: passes alone will hardly bring a gap there
LEAST = 1e-8  # no gap below this is far from any tolerance: sums of many rows are hardly more exact


def remarks(result: TrainResult) -> Iterator[tuple[str, str]]:
    """(code, text) of each warning that a training ends with; options are marked (see wording.py)."""
    if result.reason == "signal":
        return
    if not result.converged:
        yield "not_converged", advice(result)
    missing = result.run_end.get("never_predicted")
    if missing:
        asked = result.model.header
        mends = [] if math.isinf(asked["C"]) else ["a larger `C`"]
        if mends and asked["class_weight"] is None:
            mends.insert(0, "`class_weight=balanced`")
        listed = ", ".join(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
        help = f"; {' or '.join(mends)} may mend that" if mends else ""
        yield "never_predicted", f"never predicted: {counted(len(missing), 'class')} ({listed}){help}"
    edge = _edge(result.run_end.get("trials") or [], result.run_end.get("C"))
    if edge is not None:
        yield "edge", edge


def _edge(trials: list[dict[str, Any]], best: float | None) -> str | None:
    """What to say of a best C that is the smallest or the largest of several."""
    given = sorted({one["C"] for one in trials if "nonzeros" not in one})  # a path finds its own
    if len(given) < 2 or best not in (given[0], given[-1]) or best == math.inf:
        return None
    size, more = ("smallest", "smaller") if best == given[0] else ("largest", "larger")
    return f"the best C, {best:g}, is the {size} of those given; a {more} one may be better still: list some in `C`"


def advice(result: TrainResult) -> str:
    """What to say of a training that did not converge, and what to do; options are marked (see wording.py)."""
    certificate, asked = result.certificate, result.model.header
    if certificate.residual is not None:
        return unmet(result)
    if result.reason in ("not_separable", "small_margin"):
        return no_margin(result)
    if result.reason == "separated":
        return separated(result)
    limit = "`max_seconds`" if result.reason == "seconds" else "`passes`"
    kind, gap = ("gap", certificate.gap) if certificate.gap is not None else ("margin gap", certificate.margin_gap)
    far = gap is None or gap > FAR * max(asked["tol"], LEAST)
    others = ["use `solver=auto`"] if result.better else []
    mends = ", ".join([*others, f"raise {limit}"])
    if far and result.ranges is not None:  # which is no matter of C
        mends = "; ".join([*others, result.ranges, f"else raise {limit}"])
    elif far and not math.isinf(asked["C"]):
        mends = ", ".join([*others, "take a smaller `C`", f"raise {limit}"])
    known = "no gap was certified" if gap is None or math.isinf(gap) else f"the certified {kind} is {gap:.1e}"
    stopped = f"not converged after {counted(result.passes, 'pass')}: stopped by {result.reason} when {known}"
    near = f"{'far from' if far else 'near'} the tolerance {asked['tol']:g}"
    if asked["tol"] == 0.0:
        near = "and a gap of 0 is met by chance at most"
    return f"{stopped}, {near}; {mends} or `tol`"


def separated(result: TrainResult) -> str:
    """What to say of a method that ends once the rows are separated, options marked (see wording.py)."""
    return (
        f"the rows are separated, and `solver={result.model.header['solver']}` looks for no more; their margin is "
        f"{result.certificate.margin_lower:.3g}, and the largest may be up to {result.certificate.margin_upper:.3g}: "
        "`solver=auto` finds it"
    )


def no_margin(result: TrainResult) -> str:
    """What to say of rows that no separator was found for, options marked (see wording.py)."""
    upper = min(one["margin_upper"] for one in result.certificate.per_class or [])
    finite = "train with a finite `C` and `solver=auto`"
    mend = finite if result.model.header["bias"] else f"add a constant column, `bias=1`, or {finite}"
    if result.reason == "not_separable":
        return (
            f"no hyperplane through the origin separates the rows: the bound on its margin, {upper:.3g}, is 0 but for "
            f"rounding; {mend}"
        )
    return (
        f"no separator was found, and none through the origin has a margin above {upper:.3g}, which is below "
        f"{result.run_end['smallest_margin']:.3g}, `tol` times the mean row norm; lower `tol`, or {mend}"
    )


def unmet(result: TrainResult) -> str:
    """What to say of numbers that were not interpolated, options marked (see wording.py)."""
    certificate = result.certificate
    least = math.sqrt(2.0 * max(certificate.dual or 0.0, 0.0))
    return (
        f"stopped by {result.reason} with a row {certificate.residual:.3g} beyond its tolerance; every interpolator "
        f"has a norm of at least {least:.3g}, and rows that contradict each other have none; raise `passes` or `tol`, "
        "or allow a larger epsilon, as in `loss=interpolate:0.1`"
    )
