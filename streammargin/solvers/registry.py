"""Which solvers there are. A new one is one file in a folder of ROOMS with a subclass named Method."""

from __future__ import annotations

import importlib
import importlib.util
from importlib import metadata
from typing import TYPE_CHECKING, Any

from streammargin.errors import UsageError
from streammargin.wording import shown

if TYPE_CHECKING:
    from streammargin.solvers.base import Method

ROOMS = ("coordinate", "newton", "columns", "margin", "streams", "papers")
# words for a solver with fields of its own: its file, and the fields
WORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "sdca": ("ascent", {"momentum": "no"}),
    "asdca": ("ascent", {"momentum": "yes"}),
    "prox-newton": ("newton", {"proximal": True}),
}
AUTO = "auto"  # stands for the solvers that `solvers/auto.py` names for a problem

# name on the command line -> one line of help; a literal table, because --help must not import numba
SOLVERS = {
    "sdca": "dual coordinate ascent, one row at a time; any loss, norm and C; stops by the duality (margin) gap",
    "asdca": "the same with momentum, any p > 1: fewer passes to a tight gap; stops by the duality (margin) gap",
    "ascent": "sdca, and in memory asdca from where that takes fewer passes; finite C; stops by the duality gap",
    "newton": "second-order steps, a few reads; finite C, norm 2, l1, groups, few columns; stops by the duality gap",
    "prox-newton": "the same, with the steps for l1 and groups under any penalty; stops by the duality gap",
    "pdprox": "primal-dual proximal steps, one read each; finite C, any penalty; stops by the duality gap",
    "mirror": "primal mirror descent, also on streams; C = inf, any norm; stops when every y x.w >= 1 - tol",
    "perceptron": "lp-norm perceptron, also on streams; C = inf, any norm; stops when no row is misclassified",
    "pegasos": "falling subgradient steps, also on streams; finite C, hinge, norm 2; stops by the duality gap",
    "diagonal": "projected gradient on all duals at once, schedule; C = inf, norm 2; stops by the margin gap",
    "inertial-diagonal": "diagonal with inertia, the faster one; C = inf, norm 2; stops by the margin gap",
    "homotopic": "subgradient, falling penalty, average, stochastic; C = inf, norm 2; stops by the margin gap",
    "dual-momentum": "gradient steps with momentum, a read each; C = inf, norm 2, also joint; stops by the margin gap",
    "normalized-gd": "normalised gradient steps, one read each; C = inf, norm 2, also joint; stops by the margin gap",
    "gd": "gradient descent, exponential or logistic risk; C = inf, norm 2, also joint; stops by the margin gap",
    "active-set": "exact on a few hundred rows, a read checks all; C = inf, norm 2; stops by the margin gap",
    "adaptive": "rows drawn by exp(-margin), a Gram column each; C = inf, norm 2, also joint; stops by the margin gap",
    "batch-perceptron": "a step along the worst row, average; C = inf, norm 2; stops by the margin gap",
}


# what `streammargin solvers` shows them on
SHELVES = {
    "the ones to take": ("auto", "ascent", "newton", "prox-newton", "pdprox", "active-set"),
    "streams": ("perceptron", "mirror", "pegasos"),
    "parts of ascent": ("sdca", "asdca"),
    "methods of the papers": (
        "dual-momentum", "normalized-gd", "gd", "batch-perceptron", "diagonal", "inertial-diagonal", "homotopic",
        "adaptive",
    ),
}  # fmt: skip


def names() -> dict[str, str]:
    """What may be asked for, `auto` among it, and a line on each."""
    suits = "the one that suits C, penalty and multiclass: newton, ascent, pdprox, active-set, asdca, dual-momentum"
    return {AUTO: suits, **SOLVERS}


def make_solver(name: str | Method) -> Method:
    """An instance of the solver of this name; an instance is one already. Raises UsageError if unknown."""
    if not isinstance(name, str):
        from streammargin.solvers import base

        if not isinstance(name, base.Method):
            raise UsageError(f"`solver` must be a name or a Solver, not {shown(name)}")
        return name
    if name not in SOLVERS:
        for point in metadata.entry_points(group="streammargin.solvers", name=name):
            return point.load()()
        raise UsageError(f"unknown solver {shown(name)}; the solvers are {', '.join(names())}")
    file, fields = WORDS.get(name, (name.replace("-", "_"), {}))
    places = [f"{__package__}.{room}.{file}" for room in ROOMS]
    made: Method = importlib.import_module(next(filter(importlib.util.find_spec, places))).Method(**fields)
    return made
