"""Losses of the margin u = y (x . w), or of the residual u = x . w - y of a number y. A new loss is one new file here.

A loss file defines subclasses of `Loss` (base.py), the words of `loss` with their fields, and LOSSES, which lists them.
`terms` of a loss makes what kernels take: a named tuple of floats with these methods, on the C scale of the dual
(0 <= alpha <= cap * U with cap = C s_i; see `hinges.py` for a model). The duals of a loss of numbers have both signs
(`residuals.py`).

    step(alpha, u, L, cap)   the new dual variable; L is the curvature along the row
    slope(alpha, L, cap)     -d step / du where the step came to alpha, 0 at a bound: L = 0 gives cap phi''(u)
    distance(u)              how far the margin u is from where phi is not linear; coordinate ascent does without, and
                             its rows at a bound sleep less then (compiled/sleep.py)
    primal(u, cap)           cap * phi(u)
    dual(alpha, cap)         -cap * phi*(-alpha/cap), the row's share of the dual; of a number, without alpha y
    settled(alpha, cap)      True where alpha lies at a bound that a step may leave it at
    attained(u, cap)         alpha = -cap phi'(u), with primal, dual and slope there, of a smooth loss; may be left out
                             (base.py), and pays where they share exponentials
    gap(alpha, u, cap)       primal - dual + alpha u >= 0, the row's share of the duality gap
    feasible(alpha, cap)     the feasible dual next to alpha
    slack(u)                 how far the row is from being missed, in its own units: the margin, or minus the violation
    missed(u)                whether the row is on the wrong side
    has_hard_margin()        whether C = inf makes sense
    of_numbers()             True where u is a residual; may be left out otherwise
    log_likelihood(scores)   the logarithm of the probability of the class that scores speak for (an array, by NumPy
                             alone), where the loss is minus that; may be left out
    level()                  the share of numbers below the constant that is best alone, None (or no method): their mean
    reach()                  of numbers, for the field `top`: the largest |alpha| / cap, for alpha > 0 and for alpha < 0
    lifted(lift)             the loss once lift |alpha| / reach is taken off its dual; with `reach`, for numbers alone
    most()                   where that is the mean with errors no larger than this, inf (or no method) where with all

They may lack the dual (all but `primal` and `has_hard_margin`). Whole-pass methods ask of it, for scores
s = -u, sums of phi and phi' that neither overflow nor vanish, because a running level is taken off:

    level(s)                 log phi'(s), exact or rounded up to a factor of 2: what is taken off
    share(s, level)          phi'(s) exp(-level), the row's part in the gradient
    value(s, level)          phi(s) exp(-level)
    divisor(total, value, level)  phi'(psi) exp(-level) at phi(psi) = sum of phi (dual acceleration paper, eq. (2.1),
                             (2.2)), from the sums of share and value
    steepness(rows)          rho, the smoothness of psi for the largest score (section 5.1)
    curvature_bound()        bound of phi'', inf where it has none; most methods take that where it is left out
    curvature_at_start()     bound of the mean of phi'' over the rows where their risk is at most that of w = 0
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any

from streammargin.losses.base import Loss, has
from streammargin.words import Family

PEERS = {  # words of scikit-learn, LIBLINEAR and Vowpal Wabbit
    "log": "logistic", "log_loss": "logistic", "hinge_loss": "hinge", "squared": "squared_error",
    "squared_loss": "squared_error", "mse": "squared_error", "mae": "absolute_error", "pinball": "quantile",
    "l1": "hinge", "l2": "squared_hinge", "svr": "epsilon_insensitive", "softmax": "logistic",
}  # fmt: skip


def _load() -> dict[str, type[Loss]]:
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    return {cls.name: cls for module in modules for cls in getattr(module, "LOSSES", ())}


LOSSES = _load()
FAMILY = Family("loss", "losses", Loss, LOSSES, PEERS)  # type: ignore[type-abstract]


def __getattr__(name: str) -> Any:
    """The classes of all losses: `losses.Hinge`."""
    classes: list[type] = [Loss, *LOSSES.values()]
    for cls in classes:
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["Loss", *(cls.__name__ for cls in LOSSES.values())])


def make_loss(value: object) -> Loss:
    """The loss that a word stands for, or an object of a subclass of `Loss`. Raises UsageError."""
    return FAMILY.of(value)


def terms(value: object) -> Any:
    """What kernels take of a loss, or of the word of one."""
    return make_loss(value).terms()


def losses_with(methods: Iterable[str], of_numbers: bool = False) -> list[str]:
    """Words of the losses of classes, or of numbers and a finite C, that have all of these methods."""
    made = {name: cls().terms() for name, cls in sorted(LOSSES.items()) if not cls.only_hard}
    fit = [name for name, loss in made.items() if is_numeric(loss) == of_numbers]
    return [name for name in fit if all(has(made[name], method) for method in methods)]


def is_numeric(terms: Any) -> bool:
    """Whether a loss, as kernels take it, is one of numbers rather than classes."""
    return has(terms, "of_numbers") and terms.of_numbers()
