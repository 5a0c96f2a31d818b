"""Which solver for which problem."""

from __future__ import annotations

from streammargin.solvers import sdca


def choose(hard: bool, p: float, joint: bool, numeric: bool = False) -> str:
    """The solver that `auto` stands for.

    hard: C = inf; p: exponent of the norm; joint: one margin for all classes; numeric: the labels are numbers to
    interpolate.
    """
    if joint:
        return "dual-momentum"
    if hard and p == 2.0 and not numeric:
        return "active-set"
    return "asdca" if hard and p < 2.0 else "sdca"


class Method(sdca.Method):
    """Has the name in the registry; `train` puts the solver that `choose` names in its place."""

    name = "auto"
    summary = "the solver that suits the problem"
